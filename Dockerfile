# Builds Minitill without a database (the SQL checks are in .sqlx) and puts the one program into
# a small image that runs as an ordinary user.

# The compiler's version is fixed, as Cargo.lock fixes that of every crate: the same source gives the same
# program. What comes from Debian does not stand still, on purpose: it brings security updates.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
# Only what the compiler sees: a change of the documents or the tests builds nothing anew.
COPY Cargo.lock *.toml ./
COPY .cargo .cargo
COPY .sqlx .sqlx
COPY assets assets
COPY config config
COPY crates crates
COPY migrations migrations
COPY src src
COPY xtask xtask
ENV SQLX_OFFLINE=true
RUN cargo build --release --locked && strip target/release/minitill && target/release/minitill man /src/man

FROM debian:bookworm-slim
# The certificates are for uploads by URL. PostgreSQL's programs serve the private database, for a
# container that is given no DATABASE_URL; no cluster of Debian's own is made beside it.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates postgresql-common \
    && sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
    && apt-get install --yes --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin minitill \
    && install --directory --owner=minitill --group=minitill --mode=0700 /data
COPY --from=build /src/target/release/minitill /usr/local/bin/minitill
COPY --from=build /src/man /usr/local/share/man/man1
COPY deploy/backup deploy/restore /usr/local/lib/minitill/

USER minitill
WORKDIR /data
# The private PostgreSQL and the file of the master key; untouched where DATABASE_URL and
# MINITILL_SECRETS__MASTER_KEY are set.
VOLUME /data
ENV MINITILL_PUBLIC__LISTEN=0.0.0.0:8080 \
    MINITILL_OPS__LISTEN=0.0.0.0:8081 \
    MINITILL_DATABASE__DATA_DIR=/data \
    MINITILL_LOG__FORMAT=json
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
# The shell speaks enough HTTP. Not /readyz: a container is not to be replaced because its
# database is away.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8081 && printf 'GET /healthz HTTP/1.1\\r\\nhost: localhost\\r\\nconnection: close\\r\\n\\r\\n' >&3 && read -r -t 2 _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["minitill"]
CMD ["serve"]
