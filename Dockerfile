# The README's two commands in a container:
#   docker build --tag companion .
#   docker run --rm --volume "$PWD/build:/companion/build" companion
#   docker run --rm companion ./reproduce.sh test
FROM python:3.11-slim-bookworm

# git, to tell whether a run leaves the work tree as it was; Chromium, for the tests of pages
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git chromium \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /companion
COPY . .

# PyTorch's CPU build: without it pip would take several GB of CUDA along.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
RUN ./reproduce.sh --list

CMD ["./reproduce.sh"]
