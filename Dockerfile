# The engine's own image, with `dflash` beside it in an environment of its own:
#
#   docker build -t dflash .                                                      vLLM
#   docker build -t dflash-sglang --build-arg BASE=lmsysorg/sglang:v0.5.23 .      SGLang
#   docker build -t dflash-cpu --target cpu .                                     the embedded engine
#
# See README.md for how to run it. Nothing in here is secret: keys are passed by name.
ARG BASE=vllm/vllm-openai:v0.33.0
ARG SLIM=python:3.12-slim

FROM ${SLIM} AS wheel
WORKDIR /src
COPY . .
RUN python3 -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

# The command line and the embedded engine, on any CPU.
FROM ${SLIM} AS cpu
# PyPI's torch for Linux is a CUDA build of several GB; this one is a tenth of it
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY --from=wheel /wheel /tmp/wheel
RUN python3 -m venv --without-pip /opt/dflash \
    && python3 -m pip --python /opt/dflash/bin/python install --no-cache-dir \
       --extra-index-url "${TORCH_INDEX}" "$(ls /tmp/wheel/*.whl)[local]" \
    && mkdir -p /usr/local/bin && ln -s /opt/dflash/bin/dflash /usr/local/bin/dflash \
    && mkdir -p /cache/huggingface /cache/home /cache/state && chmod -R 1777 /cache
# any --user writes below /cache: mount volumes there to keep what it fetches and compiles
# but no volume on state: processes are this container's alone, and others may share its home
ENV HOME=/cache/home \
    HF_HOME=/cache/huggingface \
    XDG_STATE_HOME=/cache/state \
    USER=dflash \
    DFLASH_HOST=0.0.0.0
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=30s --start-period=30m --retries=3 CMD ["dflash", "ps", "--check"]
ENTRYPOINT ["dflash"]
CMD ["--help"]
LABEL org.opencontainers.image.title="dflash-deploy" \
      org.opencontainers.image.description="DFlash speculative decoding on any CPU, for a small demo pair" \
      org.opencontainers.image.licenses="Apache-2.0"

# An engine's image: its environment is not touched, ours holds the command line alone.
FROM ${BASE} AS engine
COPY --from=wheel /wheel /tmp/wheel
RUN python3 -m venv --without-pip /opt/dflash \
    && python3 -m pip --python /opt/dflash/bin/python install --no-cache-dir /tmp/wheel/*.whl \
    && mkdir -p /usr/local/bin && ln -s /opt/dflash/bin/dflash /usr/local/bin/dflash \
    && mkdir -p /cache/huggingface /cache/home /cache/state && chmod -R 1777 /cache
ENV HOME=/cache/home \
    HF_HOME=/cache/huggingface \
    TORCHINDUCTOR_CACHE_DIR=/cache/home/.cache/torchinductor \
    XDG_STATE_HOME=/cache/state \
    USER=dflash \
    DFLASH_HOST=0.0.0.0
EXPOSE 8000 30000
HEALTHCHECK --interval=30s --timeout=30s --start-period=30m --retries=3 CMD ["dflash", "ps", "--check"]
ENTRYPOINT ["dflash"]
CMD ["--help"]
LABEL org.opencontainers.image.title="dflash-deploy" \
      org.opencontainers.image.description="DFlash speculative decoding on vLLM or SGLang" \
      org.opencontainers.image.licenses="Apache-2.0"
