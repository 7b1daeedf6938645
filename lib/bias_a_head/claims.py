"""Every claim of Bias A-head that can be tested, and the tests of those of notebooks 02, 03 and 04.

Each test returns verdicts, one per claim and thing that it was tested on; `table` and the like make the notebooks'
tables of them. The claims of notebooks 05 and 06 are tested in claims_tuned.py.
"""

from lib.verdict import Claim, Side, by_id

PAPER = "bias_a_head"
SEVERAL = 3              # heads: what the paper's "several" and "a number of" are taken to mean
LITTLE, MUCH = .05, .20  # what "little cost" and "much worse" in PPPL are taken to mean; the paper has .017 and .38
COMPARABLE = .01         # how much lower a GLUE score may be

FIG1, FIG2, PLANE = "02_fig1_distributions", "02_fig2_heatmaps", "04_table1_plane"
TABLE1, TABLE2, TABLE3, FIG5 = "App. A, Table 1", "App. A, Table 2", "App. B, Table 3", "App. C, Fig. 5"
MORE, NOT = "biased heads attend more to the stereotyped pair", "regular heads do not"

# id, paper, where, what it says, notebook, figure, the notebook's name for it ("": not in its table), side, threshold
CLAIMS = by_id(Claim(id, PAPER, *about) for id, *about in (
    ("heads-near-zero", "5.1, Fig. 1", "Most heads have next to no effect on the bias", "02", FIG1,
     "most heads lie near zero", Side.ABOVE, .5),
    ("heads-right-tail", "5.1, 6, Fig. 1", "Several heads have a far higher bias score than the others", "02", FIG1,
     "several heads stand out to the right", Side.AT_LEAST, SEVERAL),
    ("heads-all-layers", "5.1, 6, Fig. 2", "Biased heads appear in all layers", "02", FIG2,
     "biased heads appear in all layers", Side.AT_LEAST),  # the number of layers
    ("heads-gpt2-negative", "5.1, Fig. 1b", "GPT-2 has more heads of negative score than BERT", "02", FIG1,
     "GPT-2 has more negative heads than BERT"),
    ("heads-race-higher", "6, Fig. 2c", "On race the highest heads sit in higher layers", "02", FIG2,
     "race's highest heads sit in higher layers"),
    ("heads-race-higher-gpt2", "footnote 13", "So they do in GPT-2", "02", FIG2, "likewise in GPT-2 (footnote 13)"),
    ("heads-race-gpt2", "footnote 13", "GPT-2 is biased on race as BERT is", "02", FIG2,
     "GPT-2 shows race bias likewise (footnote 13)", Side.BELOW, .05),
    ("seat-order", "footnote 9", "GPT-2 is less biased than BERT by SEAT", "02", FIG1, "", Side.BELOW),
    ("gradient-sign", "3.2", "The sign of a head's score is that of what its removal does to SEAT", "02", "02_ablation",
     "", Side.AT_LEAST, .9),
    ("counter-4a-biased", "5.2, Fig. 4a", "Biased heads attend more to the stereotyped word (BERT, gender)", "03",
     "03_fig4a", MORE, Side.BELOW, .05),
    ("counter-4a-regular", "5.2, Fig. 4a", "Regular heads do not (BERT, gender)", "03", "03_fig4a", NOT,
     Side.AT_LEAST, .05),
    ("counter-4b-biased", "5.2, Fig. 4b", "Biased heads attend more to the stereotyped word (GPT-2, gender)", "03",
     "03_fig4b", MORE, Side.BELOW, .05),
    ("counter-4b-regular", "5.2, Fig. 4b", "Regular heads do not (GPT-2, gender)", "03", "03_fig4b", NOT,
     Side.AT_LEAST, .05),
    ("counter-4c-biased", "6, Fig. 4c", "Biased heads attend more to the stereotyped word (BERT, race)", "03",
     "03_fig4c", MORE, Side.BELOW, .05),
    ("counter-4c-regular", "6, Fig. 4c", "Regular heads do not (BERT, race)", "03", "03_fig4c", NOT,
     Side.AT_LEAST, .05),
    ("counter-example", "5.2, Fig. 3", "In the running example the biased head looks away from the swapped word", "03",
     "03_fig3", "", Side.BELOW),
    ("counter-contrast", "1", "The swap changes the attention of biased heads more than that of regular ones", "03",
     "03_fig4a"),
    ("mask-top3-seat", TABLE1, "Masking the Top-3 lowers SEAT", "04", PLANE, "Top-3 lowers SEAT", Side.AT_MOST),
    ("mask-top3-pppl", TABLE1, "Masking the Top-3 costs little PPPL", "04", PLANE, "Top-3 costs little PPPL",
     Side.AT_MOST, 1 + LITTLE),
    ("mask-bottom3", TABLE1, "Masking the Bottom-3 raises SEAT", "04", PLANE, "Bottom-3 raises SEAT", Side.AT_LEAST),
    ("mask-random3", TABLE1, "Masking three random heads raises SEAT", "04", PLANE, "Random-3 raises SEAT",
     Side.AT_LEAST),
    ("mask-random-all", TABLE1, "Masking many random heads raises SEAT", "04", PLANE, "Random-All raises SEAT",
     Side.AT_LEAST),
    ("mask-all-seat", TABLE1, "Masking all biased heads lowers SEAT no further than the Top-3", "04", PLANE,
     "All gives no lower SEAT than Top-3", Side.AT_LEAST),
    ("mask-all-pppl", TABLE1, "Masking all biased heads makes PPPL much worse", "04", PLANE,
     "All has a much worse PPPL than Top-3", Side.AT_LEAST, 1 + MUCH),
    ("mask-lpbs", TABLE3, "Masking top heads can lower LPBS too", "04", "04_table3_curves",
     "Masking top heads can lower LPBS"),
    ("mask-lpbs-all", TABLE3, "Masking all of them does not give the lowest LPBS", "04", "04_table3_curves",
     "All does not give the lowest LPBS", Side.BELOW),  # the number of biased heads
    ("mask-top3-best", TABLE1, "Of Top-3, Bottom-3 and All the Top-3 have the lowest SEAT and PPPL", "04", PLANE),
    ("mask-amplify", "9", "Amplifying anti-biased heads may lower the bias (a conjecture)", "04", "04_amplified",
     "Amplifying the Bottom-3 lowers SEAT (conjecture)", Side.AT_MOST),
    ("glue-top3", TABLE2, "Masking the Top-3 leaves GLUE scores comparable", "05", "05_changes",
     "Masking the top 3 heads keeps the scores comparable", Side.ABOVE, -COMPARABLE),
    ("glue-all", TABLE2, "Masking all biased heads worsens GLUE scores", "05", "05_changes",
     "Masking all biased heads worsens them", Side.BELOW),
    ("glue-order", TABLE2, "Top-3 scores above All in every GLUE metric", "05", "05_changes",
     "Top-3 scores above All in every metric", Side.AT_LEAST),  # the number of metrics
    ("debiased-seat", FIG5, "Debiased models are less biased", "06", "06_fig5_heatmaps",
     "a debiased model is less biased by SEAT", Side.BELOW),
    ("debiased-fewer", FIG5, "Debiased models have fewer biased heads", "06", "06_fig5_heatmaps",
     "it has fewer biased heads than its base", Side.BELOW),
    ("debiased-remain", FIG5, "A number of biased heads remain in debiased models", "06", "06_fig5_heatmaps",
     "a number of biased heads remain", Side.AT_LEAST, SEVERAL),
    ("debiased-darker", FIG5, "Some slightly biased heads get darker by debiasing", "06", "06_fig5_heatmaps",
     "some slightly biased heads get darker", Side.AT_LEAST, SEVERAL),
    ("debiased-turned", FIG5, "Debiasing turns some anti-biased heads into biased ones", "06", "06_fig5_heatmaps",
     "some of the most anti-biased heads turn biased"),
    ("chat-seat", "7", "The chat model is less biased than its base, LLaMA-2", "06", "06_fig67_distributions",
     "the chat model is less biased than its base", Side.BELOW),
    ("chat-heads", "7, Fig. 6-7", "The chat model has fewer heads of pronounced positive score", "06",
     "06_fig67_distributions", "it has fewer heads with a pronounced positive score", Side.BELOW, .05),
))
