# phmrun with the versions of constraints.txt. Build: docker build -t phmrun .
# Use: docker run --rm -v "$PWD/runs:/work/runs" phmrun train nmt --layer phm --n 8
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
WORKDIR /src
COPY . .
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
# One index per command: torch alone from its own index, everything else from PyPI.
RUN pip install --no-cache-dir --no-deps --index-url "$TORCH_INDEX" -c constraints.txt torch \
    && pip install --no-cache-dir -c constraints.txt '.[ctranslate2,export]' \
    && rm -rf /src/*
RUN useradd --create-home phmrun && mkdir /work && chown phmrun /work
USER phmrun
WORKDIR /work
ENTRYPOINT ["phmrun"]
CMD ["--help"]
