# Builds Minitill without a database (the SQL checks are in .sqlx) and puts the one program into
# a small image that runs as an ordinary user.

FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
ENV SQLX_OFFLINE=true
RUN cargo build --release --locked && strip target/release/minitill

FROM debian:bookworm-slim
# PostgreSQL's programs serve the private database, for a container that is given no DATABASE_URL.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates postgresql-common \
    && sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
    && apt-get install --yes --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin minitill \
    && install --directory --owner=minitill --group=minitill --mode=0700 /data
COPY --from=build /src/target/release/minitill /usr/local/bin/minitill

USER minitill
WORKDIR /data
VOLUME /data
ENV MINITILL_PUBLIC__LISTEN=0.0.0.0:8080 \
    MINITILL_OPS__LISTEN=0.0.0.0:8081 \
    MINITILL_DATABASE__DATA_DIR=/data \
    MINITILL_LOG__FORMAT=json
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# No tool needs to be installed for it: the shell speaks enough HTTP.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8081 && printf 'GET /readyz HTTP/1.0\\r\\nhost: localhost\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["minitill"]
CMD ["serve"]
