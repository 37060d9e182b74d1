# phmrun with the versions of constraints.txt. Build: docker build -t phmrun .
# Use: docker run --rm -v "$PWD/runs:/work/runs" phmrun train nmt --layer phm --n 8
FROM python:3.11-slim
WORKDIR /src
COPY . .
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c constraints.txt torch \
    && pip install --no-cache-dir -c constraints.txt '.[ctranslate2,export,search]' \
    && rm -rf /src/*
RUN useradd --create-home phmrun && mkdir /work && chown phmrun /work
USER phmrun
WORKDIR /work
ENTRYPOINT ["phmrun"]
CMD ["--help"]
