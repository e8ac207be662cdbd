# Builds Minitill without a database (the SQL checks are in .sqlx), into one of two images:
#
#   docker build --tag minitill .                       the program alone, for those with a database
#   docker build --target minitill-with-postgresql .    with PostgreSQL's programs and the scripts
#
# Both run as the user 10001 and write only into /data, so their root can be read-only.

# The compiler's version is fixed, as Cargo.lock fixes that of every crate: the same source gives the same
# program. What comes from Debian does not stand still, on purpose: it brings security updates.
FROM rust:1.95.0-slim-bookworm AS rust
WORKDIR /src
ENV SQLX_OFFLINE=true

# Every package with its manifest, and with empty sources.
FROM rust AS manifests
COPY Cargo.lock Cargo.toml ./
COPY crates crates
COPY xtask xtask
RUN find crates xtask ! -type d ! -name Cargo.toml -delete && find crates xtask -type d -empty -delete \
    && for package in . crates/* xtask; do mkdir -p "$package/src" && : > "$package/src/lib.rs"; done \
    && echo 'fn main() {}' | tee src/main.rs > xtask/src/main.rs

FROM rust AS build
# The crates of others. This layer is built anew only when a Cargo.toml or Cargo.lock changes.
COPY --from=manifests /src .
RUN cargo build --profile dist --locked --package minitill
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
# Cargo goes by the times of files, and the empty sources may be younger.
RUN find src crates xtask -name '*.rs' -exec touch {} + \
    && cargo build --profile dist --locked --package minitill \
    && install -D --strip target/dist/minitill /out/usr/local/bin/minitill \
    && target/dist/minitill man /out/usr/local/share/man/man1

# The few packages of Debian that the program needs at run time: the C library, and the certificates
# for requests to others. Scanners find their versions where "distroless" images have them.
FROM debian:bookworm-slim AS libraries
WORKDIR /packages
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && apt-get download libc6 libgcc-s1 \
    && mkdir -p /root-of-image/var/lib/dpkg/status.d /root-of-image/etc/ssl/certs /root-of-image/tmp \
    && for package in *.deb; do \
        dpkg-deb --extract "$package" /root-of-image \
        && dpkg-deb --field "$package" > "/root-of-image/var/lib/dpkg/status.d/${package%%_*}" || exit 1; \
    done \
    && cd /root-of-image \
    && rm -rf usr/share/lintian usr/share/doc/*/changelog* usr/lib/*/gconv \
    && cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/ \
    && chmod 1777 tmp \
    && install --directory --owner=10001 --group=10001 --mode=0700 data \
    && echo 'minitill:x:10001:10001::/data:/usr/sbin/nologin' > etc/passwd \
    && echo 'minitill:x:10001:' > etc/group \
    && echo 'hosts: files dns' > etc/nsswitch.conf

FROM debian:bookworm-slim AS minitill-with-postgresql
# PostgreSQL's programs serve the private database, for a container that is given no DATABASE_URL, and
# the scripts of backup and restore. No cluster of Debian's own is made beside it.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates postgresql-common \
    && sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
    && apt-get install --yes --no-install-recommends postgresql-15 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --user-group --uid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin minitill \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /out /
COPY deploy/backup deploy/migrate deploy/restore deploy/rights.sql /usr/local/lib/minitill/
USER 10001:10001
WORKDIR /data
# The private PostgreSQL and the file of the master key.
VOLUME /data
ENV MINITILL_PUBLIC__LISTEN=0.0.0.0:8080 \
    MINITILL_OPS__LISTEN=0.0.0.0:8081 \
    MINITILL_DATABASE__DATA_DIR=/data \
    MINITILL_LOG__FORMAT=json
EXPOSE 8080 8081
# Not --ready: a container is not to be replaced because its database is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["minitill", "health"]
ENTRYPOINT ["minitill"]
CMD ["serve"]

# The last one is built where no target is named. It has no shell and no programs but Minitill.
FROM scratch AS minitill
COPY --from=libraries /root-of-image /
COPY --from=build /out/usr/local/bin/minitill /usr/local/bin/minitill
USER 10001:10001
WORKDIR /data
# The file of the master key, where MINITILL_SECRETS__MASTER_KEY is not set.
VOLUME /data
ENV PATH=/usr/local/bin \
    MINITILL_PUBLIC__LISTEN=0.0.0.0:8080 \
    MINITILL_OPS__LISTEN=0.0.0.0:8081 \
    MINITILL_DATABASE__DATA_DIR=/data \
    MINITILL_LOG__FORMAT=json
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["minitill", "health"]
ENTRYPOINT ["minitill"]
CMD ["serve"]
