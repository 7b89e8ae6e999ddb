# SPDX-License-Identifier: Apache-2.0
# motley without root on the machine itself, or where it is no Debian (not run as a whole yet: docs/install.md):
#   docker build -t motley .     (or podman, buildah)
#   docker run --rm --shm-size=1g motley                        the quickstart
#   docker run --rm -it --shm-size=1g -v "$PWD":/work -w /work motley motley train job.json
FROM debian:bookworm-slim
WORKDIR /motley
COPY scripts/deps scripts/
RUN scripts/deps && rm -rf /var/lib/apt/lists/*
COPY . .
RUN scripts/build && useradd --create-home motley && mkdir -p runs && chown motley: . runs && chown -R motley: build
ENV PATH=/motley/build:$PATH
USER motley
CMD ["scripts/quickstart"]
