# A ranking service: docker build -t rankwright . && docker run -p 127.0.0.1:8000:8000 -v ./run:/model:ro rankwright
# /model is a run folder of `rankwright train` or a model of `Ranker.save`. docs/deploy.md says more.
FROM python:3.11-slim AS build
WORKDIR /build
RUN python -m venv /opt/rankwright
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/rankwright/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home rankwright && mkdir /kernels && chown rankwright /kernels
COPY --from=build /opt/rankwright /opt/rankwright
# Kernels are compiled for this kind of processor, not for the one that builds the image: where the two differ, Numba would
# compile again. x86-64-v3 is faster where all that serve have it.
ARG CPU=generic
ENV PATH=/opt/rankwright/bin:$PATH NUMBA_CACHE_DIR=/kernels NUMBA_CPU_NAME=$CPU NUMBA_CPU_FEATURES="" PYTHONUNBUFFERED=1
USER rankwright
# Compile the kernels now, not at the first request.
RUN rankwright warmup
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["python", "-c", \
    "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=2)"]
ENTRYPOINT ["rankwright", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
