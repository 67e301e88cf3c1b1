# A server of one model. Build the wheel first, then the image; a wheel that is built here needs a
# system with a glibc no newer than that of the image, which is Debian's.
#
#     python -m pip wheel . --no-deps -w dist
#     docker build -t robirank .
#     docker run --read-only --tmpfs /tmp -p 127.0.0.1:8080:8080 -v "$PWD/models:/models:ro" robirank \
#       /models/model.safetensors
FROM python:3.12-slim

COPY dist/robirank-*.whl /tmp/
# The native module needs libgomp, which wheels of a release bring along and others do not.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* \
    && pip install --no-cache-dir "$(echo /tmp/robirank-*.whl)[serve]" \
    && rm /tmp/robirank-*.whl \
    && useradd --system --no-create-home --shell /usr/sbin/nologin robirank
USER robirank
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s CMD ["python", "-c", \
  "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/readyz', timeout=2)"]
STOPSIGNAL SIGTERM
# In a container, the address that others reach is the container's; publish the port on loopback,
# or give --keys.
ENTRYPOINT ["robirank", "serve", "--host", "0.0.0.0", "--port", "8080"]
