-- The schema of Minitill: money, orders, pictures, and who may change them.
--
-- The key of every tenant's table starts with the app (contract 2.9). So an engine that spreads
-- PostgreSQL over many machines can distribute each of these tables by app_id.
-- There are no triggers, sequences, stored procedures or advisory locks (contract 9.8.4).
-- There are no foreign keys: the program checks and writes related rows in one transaction, and
-- `minitill audit` verifies the rows about money.
--
-- A migration that was released never changes. A later change of the schema is a new file.

-- Apps and their credentials (contract 8.2 and 9.4).

CREATE TABLE apps (
    app_id               text        NOT NULL,
    app_no               integer     NOT NULL,
    name                 text        NOT NULL DEFAULT '',
    category             text        NOT NULL DEFAULT 'general',
    scopes               text[]      NOT NULL DEFAULT '{}',
    sandbox              boolean     NOT NULL DEFAULT false,
    preorder_check       boolean     NOT NULL DEFAULT false,
    language             text        NOT NULL DEFAULT 'en',
    suspended_at         timestamptz,
    app_secret           bytea       NOT NULL,
    secret_generation    integer     NOT NULL DEFAULT 1,
    secret_created_at    timestamptz NOT NULL DEFAULT now(),
    former_secret        bytea,
    former_secret_created_at timestamptz,
    exchanges_per_second integer,
    reads_per_second     integer,
    reports_per_second   integer,
    uploads_per_second   integer,
    tokens_per_second    integer,
    logins_per_second    integer,
    image_bytes_per_day  bigint,
    image_bytes_max      bigint,
    images_per_day       bigint,
    images_max           bigint,
    created_at           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT apps_pkey PRIMARY KEY (app_id),
    CONSTRAINT apps_app_no_unique UNIQUE (app_no),
    CONSTRAINT apps_category_known CHECK (category IN ('general', 'local_life')),
    CONSTRAINT apps_language_known CHECK (language IN ('en', 'zh')),
    CONSTRAINT apps_limits_not_negative CHECK (
        exchanges_per_second >= 0 AND reads_per_second >= 0 AND reports_per_second >= 0
        AND uploads_per_second >= 0 AND tokens_per_second >= 0 AND logins_per_second >= 0),
    CONSTRAINT apps_quotas_positive CHECK (
        image_bytes_per_day >= 1 AND image_bytes_max >= 1 AND images_per_day >= 1 AND images_max >= 1),
    CONSTRAINT apps_former_secret_dated CHECK (
        (former_secret IS NULL) = (former_secret_created_at IS NULL))
);
COMMENT ON TABLE apps IS 'A mini-game or mini-program. It is the tenant of most other rows.';
COMMENT ON COLUMN apps.app_id IS '1 to 64 of 0-9A-Za-z_-.';
COMMENT ON COLUMN apps.app_no IS 'Number of the app, from 1. Wallets and ledger entries have it in place of the app id, because it is shorter.';
COMMENT ON COLUMN apps.name IS 'Name for people. It may be empty.';
COMMENT ON COLUMN apps.category IS 'general or local_life. local_life requires product_id, product_catalog_code and product_city in an order report.';
COMMENT ON COLUMN apps.scopes IS 'Permission scopes. An order report needs epay.';
COMMENT ON COLUMN apps.sandbox IS 'True for a sandbox app, which gets a diagnosis of a wrong signature (contract 3.7) and takes codes of sandbox players (contract 11.4).';
COMMENT ON COLUMN apps.preorder_check IS 'True when the out_order_no of a report must be a registered payment pre-order.';
COMMENT ON COLUMN apps.language IS 'Language of the texts of refusals: en or zh (contract 14.1).';
COMMENT ON COLUMN apps.suspended_at IS 'Time of the suspension. Null while the app is not suspended.';
COMMENT ON COLUMN apps.app_secret IS 'App secret, encrypted with AES-256-GCM under the master key. The app id is the associated data.';
COMMENT ON COLUMN apps.secret_generation IS '1 for the first app secret. Each rotation adds one.';
COMMENT ON COLUMN apps.secret_created_at IS 'Time when the app secret was made.';
COMMENT ON COLUMN apps.former_secret IS 'App secret before the present one, which is still valid. Encrypted as app_secret. Null before the first rotation.';
COMMENT ON COLUMN apps.former_secret_created_at IS 'Time when that app secret was made.';
COMMENT ON COLUMN apps.exchanges_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.reads_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.reports_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.uploads_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.tokens_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.logins_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';
COMMENT ON COLUMN apps.image_bytes_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.image_bytes_max IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.images_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.images_max IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.created_at IS 'Time when the app was created.';

CREATE TABLE pay_keys (
    app_id     text        NOT NULL,
    generation integer     NOT NULL,
    pay_key    bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pay_keys_pkey PRIMARY KEY (app_id, generation)
);
COMMENT ON TABLE pay_keys IS 'Keys that sign exchanges. The two highest generations of an app are valid. Older ones are retired; they only help to diagnose a wrong signature of a sandbox app.';
COMMENT ON COLUMN pay_keys.app_id IS 'The app.';
COMMENT ON COLUMN pay_keys.generation IS '1 for the first key. Each rotation adds one.';
COMMENT ON COLUMN pay_keys.pay_key IS 'The key, encrypted with AES-256-GCM under the master key. The app id is the associated data.';
COMMENT ON COLUMN pay_keys.created_at IS 'Time when the key was made.';

CREATE TABLE access_tokens (
    app_id     text        NOT NULL,
    token_hash bytea       NOT NULL,
    issued_at  timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT access_tokens_pkey PRIMARY KEY (app_id, token_hash)
);
COMMENT ON TABLE access_tokens IS 'Access tokens (contract 6.4). A row has only the hash of a token. It is removed a week after the token expires.';
COMMENT ON COLUMN access_tokens.app_id IS 'The app that the token belongs to.';
COMMENT ON COLUMN access_tokens.token_hash IS 'SHA-256 of the token.';
COMMENT ON COLUMN access_tokens.issued_at IS 'Time when the token was issued.';
COMMENT ON COLUMN access_tokens.expires_at IS 'Time when the token expires.';
CREATE INDEX access_tokens_expires_at ON access_tokens (expires_at);

CREATE TABLE login_codes (
    app_id     text        NOT NULL,
    code_hash  bytea       NOT NULL,
    open_id    text        NOT NULL,
    union_id   text,
    expires_at timestamptz NOT NULL,
    CONSTRAINT login_codes_pkey PRIMARY KEY (app_id, code_hash),
    CONSTRAINT login_codes_code_hash_length CHECK (octet_length(code_hash) = 32)
);
COMMENT ON TABLE login_codes IS 'Login codes that were not used (contract 11.3). A row has only the hash of a code. It is removed by the use of the code, or after the code expires.';
COMMENT ON COLUMN login_codes.app_id IS 'The app that the code belongs to.';
COMMENT ON COLUMN login_codes.code_hash IS 'SHA-256 of the code.';
COMMENT ON COLUMN login_codes.open_id IS 'The player who logs in. The player may not be known yet.';
COMMENT ON COLUMN login_codes.union_id IS 'The person behind the player. Null when the operator gave none.';
COMMENT ON COLUMN login_codes.expires_at IS 'Time when the code expires.';
CREATE INDEX login_codes_expires_at ON login_codes (expires_at);

CREATE TABLE key_uses (
    app_id       text        NOT NULL,
    kind         text        NOT NULL,
    key          text        NOT NULL,
    hour         timestamptz NOT NULL,
    uses         bigint      NOT NULL,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT key_uses_pkey PRIMARY KEY (app_id, kind, key, hour),
    CONSTRAINT key_uses_kind_known CHECK (kind IN ('pay_key', 'app_secret', 'api_key')),
    CONSTRAINT key_uses_not_negative CHECK (uses >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE key_uses IS 'How often each key has proven who calls, by the hour. A process counts in memory and adds its counts every half minute. Counts that it has not written are lost when it is killed. A row is removed after 25 hours, but for the newest of each key.';
COMMENT ON COLUMN key_uses.app_id IS 'The app. Empty for an API key.';
COMMENT ON COLUMN key_uses.kind IS 'pay_key, app_secret or api_key.';
COMMENT ON COLUMN key_uses.key IS 'Generation of a pay key or an app secret; name of an API key.';
COMMENT ON COLUMN key_uses.hour IS 'Beginning of the hour (UTC) in which the uses were written.';
COMMENT ON COLUMN key_uses.uses IS 'Number of uses.';
COMMENT ON COLUMN key_uses.last_used_at IS 'Database time when the last of these uses was written.';

-- Money (contract 3.3 and 9.8).

CREATE TABLE wallets (
    app_no         integer     NOT NULL,
    wallet_no      bigint      NOT NULL,
    open_id        text        COLLATE "C" NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    free_balance   bigint      NOT NULL DEFAULT 0,
    charge_balance bigint      NOT NULL DEFAULT 0,
    entry_count    bigint      NOT NULL DEFAULT 0,
    chain_hash     bytea       NOT NULL DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000',
    CONSTRAINT wallets_pkey PRIMARY KEY (app_no, wallet_no),
    CONSTRAINT wallets_open_id_unique UNIQUE (app_no, open_id),
    CONSTRAINT wallets_free_balance_not_negative CHECK (free_balance >= 0),
    CONSTRAINT wallets_charge_balance_not_negative CHECK (charge_balance >= 0),
    CONSTRAINT wallets_entry_count_not_negative CHECK (entry_count >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE wallets IS 'Present balances of a player. A row here makes the open_id known to its app. The free space in each page keeps balance updates away from the indexes.';
COMMENT ON COLUMN wallets.app_no IS 'The app.';
COMMENT ON COLUMN wallets.wallet_no IS 'Number of the wallet in its app. It is random, so that no counter is shared.';
COMMENT ON COLUMN wallets.open_id IS 'The player: 1 to 64 of 0-9A-Za-z_-. A pseudonym once the player is erased (contract 13.7). In the collation of the bytes, all open_ids with the same start are one range.';
COMMENT ON COLUMN wallets.created_at IS 'Time when the player became known.';
COMMENT ON COLUMN wallets.free_balance IS 'Gifted currency.';
COMMENT ON COLUMN wallets.charge_balance IS 'Charged currency.';
COMMENT ON COLUMN wallets.entry_count IS 'Sequence number of the last ledger entry. 0 before the first.';
COMMENT ON COLUMN wallets.chain_hash IS 'Hash of the last ledger entry. 32 zero bytes before the first.';

CREATE TABLE ledger_entries (
    wallet_no      bigint      NOT NULL,
    seq            bigint,
    at             timestamptz NOT NULL,
    free_change    bigint      NOT NULL,
    charge_change  bigint      NOT NULL,
    free_balance   bigint      NOT NULL,
    charge_balance bigint      NOT NULL,
    ts             bigint,
    remaining      bigint,
    app_no         integer     NOT NULL,
    pay_priority   smallint,
    kind           text        COLLATE "C" NOT NULL,
    reference      text        COLLATE "C" NOT NULL,
    chain_hash     bytea,
    item_id        bytea,
    zone_id        text,
    os             text,
    user_ip        text,
    extension      text,
    remark         text,
    of_biz_no      text        COLLATE "C",
    CONSTRAINT ledger_entries_pkey PRIMARY KEY (app_no, reference),
    CONSTRAINT ledger_entries_kind_known CHECK (
        kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit')),
    CONSTRAINT ledger_entries_closed_is_no_entry CHECK (
        (kind = 'closed') = (seq IS NULL) AND (seq IS NULL) = (chain_hash IS NULL)),
    CONSTRAINT ledger_entries_cancel_names_exchange CHECK (
        (kind = 'cancel') = (of_biz_no IS NOT NULL) AND (of_biz_no IS NULL) = (remaining IS NULL)),
    CONSTRAINT ledger_entries_remaining_not_negative CHECK (remaining >= 0),
    CONSTRAINT ledger_entries_seq_positive CHECK (seq >= 1),
    CONSTRAINT ledger_entries_free_balance_not_negative CHECK (free_balance >= 0),
    CONSTRAINT ledger_entries_charge_balance_not_negative CHECK (charge_balance >= 0),
    CONSTRAINT ledger_entries_chain_hash_length CHECK (octet_length(chain_hash) = 32)
);
COMMENT ON TABLE ledger_entries IS 'Every change of every wallet, without gaps, and every closed biz_no. A row is ledger entry and idempotency record in one. It only leaves for archived_entries. Nothing updates it but the erasure of a player, which removes texts (contract 13.7). So a biz_no or ref takes effect at most once (contract 3.3.3 and 8.3.3).';
COMMENT ON COLUMN ledger_entries.wallet_no IS 'The wallet. The columns with eight bytes stand first, so that no space is lost between columns.';
COMMENT ON COLUMN ledger_entries.seq IS '1 for the first entry of a wallet. Each later entry adds one. Null for a closed biz_no, which is no ledger entry.';
COMMENT ON COLUMN ledger_entries.at IS 'Database time of the statement that read the wallet for this change. A biz_no is replayed for 48 hours from here.';
COMMENT ON COLUMN ledger_entries.free_change IS 'Change of the gifted purse. A deduction is negative.';
COMMENT ON COLUMN ledger_entries.charge_change IS 'Change of the charged purse. A deduction is negative.';
COMMENT ON COLUMN ledger_entries.free_balance IS 'Gifted currency after this entry. 0 for a closed biz_no.';
COMMENT ON COLUMN ledger_entries.charge_balance IS 'Charged currency after this entry. 0 for a closed biz_no.';
COMMENT ON COLUMN ledger_entries.ts IS 'Time of the request in milliseconds, as sent with the first success. Null for an operator''s entry.';
COMMENT ON COLUMN ledger_entries.remaining IS 'What can still be given back of the exchange after this cancel. Null for other kinds.';
COMMENT ON COLUMN ledger_entries.app_no IS 'The app.';
COMMENT ON COLUMN ledger_entries.pay_priority IS 'Effective priority of an exchange: 0 charged first, 1 gifted first. Null for other kinds.';
COMMENT ON COLUMN ledger_entries.kind IS 'exchange, present, cancel, closed, credit or debit.';
COMMENT ON COLUMN ledger_entries.reference IS 'The biz_no of a game. Of an operator''s entry: an exclamation mark and the ref, so that the two namespaces never meet.';
COMMENT ON COLUMN ledger_entries.chain_hash IS 'SHA-256 over the hash of the entry before and over this entry. LedgerEntry::chain_hash of the crate domain describes the encoding. Null for a closed biz_no.';
COMMENT ON COLUMN ledger_entries.item_id IS 'What was bought: a row of items. Null for other kinds than exchange.';
COMMENT ON COLUMN ledger_entries.zone_id IS 'Zone and role, as sent. Null for an operator''s entry.';
COMMENT ON COLUMN ledger_entries.os IS 'Platform, as sent with the first success. Null for an operator''s entry.';
COMMENT ON COLUMN ledger_entries.user_ip IS 'Address of the player, as sent with the first success. It is never logged. Null for an operator''s entry.';
COMMENT ON COLUMN ledger_entries.extension IS 'Text of the developer, as sent. Empty when absent. Null for an operator''s entry.';
COMMENT ON COLUMN ledger_entries.remark IS 'Remark of a present or a cancel, as sent, or note of the operator. Null for an exchange.';
COMMENT ON COLUMN ledger_entries.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';
CREATE UNIQUE INDEX ledger_entries_seq ON ledger_entries (app_no, wallet_no, seq);
-- The entries of an app in the order of their time. Entries of one batch have the same time, so the index stays small.
CREATE INDEX ledger_entries_at ON ledger_entries (app_no, at);
-- The cancels of an exchange in their order. Two of them never leave the same rest.
CREATE UNIQUE INDEX ledger_entries_cancels ON ledger_entries (app_no, of_biz_no, remaining) WHERE of_biz_no IS NOT NULL;

CREATE TABLE items (
    item_id      bytea   NOT NULL,
    app_no       integer NOT NULL,
    product_name text    NOT NULL,
    product_info text    NOT NULL,
    product_desc text    NOT NULL,
    CONSTRAINT items_pkey PRIMARY KEY (app_no, item_id)
);
COMMENT ON TABLE items IS 'The texts that say what an exchange bought. Most exchanges buy what others bought before, so each text is stored once. A row is never updated and never deleted.';
COMMENT ON COLUMN items.item_id IS 'The first 128 bits of SHA-256 over the three texts. ItemId of the crate domain describes the encoding.';
COMMENT ON COLUMN items.app_no IS 'The app.';
COMMENT ON COLUMN items.product_name IS 'Name of the item, as sent.';
COMMENT ON COLUMN items.product_info IS 'JSON text of the items, as sent.';
COMMENT ON COLUMN items.product_desc IS 'Remark, as sent.';

-- Archived periods (docs/archives.md). The entries themselves are in files.

CREATE TABLE archives (
    app_id     text        NOT NULL,
    archive_no integer     NOT NULL,
    before     timestamptz NOT NULL,
    entries    bigint      NOT NULL,
    state      text        NOT NULL,
    file       text        NOT NULL,
    sha256     bytea       NOT NULL,
    digest     numeric,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT archives_pkey PRIMARY KEY (app_id, archive_no),
    CONSTRAINT archives_entries_positive CHECK (entries >= 1),
    CONSTRAINT archives_state_known CHECK (state IN ('moving', 'kept', 'restoring')),
    CONSTRAINT archives_digest_of_kept CHECK (state <> 'kept' OR digest IS NOT NULL),
    CONSTRAINT archives_sha256_length CHECK (octet_length(sha256) = 32)
);
COMMENT ON TABLE archives IS 'The files that hold archived entries. A restore removes the row at its end.';
COMMENT ON COLUMN archives.app_id IS 'The app.';
COMMENT ON COLUMN archives.archive_no IS '1 for the first archive of the app. Each later archive adds one.';
COMMENT ON COLUMN archives.before IS 'The archive has entries before this time.';
COMMENT ON COLUMN archives.entries IS 'Number of rows in the file: ledger entries and closed numbers.';
COMMENT ON COLUMN archives.state IS 'moving while the entries leave the ledger, kept when all have left, restoring while they go back. A transaction that moves entries first locks this row and reads the state.';
COMMENT ON COLUMN archives.file IS 'Path of the file when it was written.';
COMMENT ON COLUMN archives.sha256 IS 'SHA-256 of the file.';
COMMENT ON COLUMN archives.digest IS 'Sum of the hashes of all rows of the app in archived_entries when this archive was kept. Null before.';
COMMENT ON COLUMN archives.created_at IS 'Database time when the entries began to move.';

CREATE TABLE archived_wallets (
    wallet_no      bigint      NOT NULL,
    seq            bigint      NOT NULL,
    free_balance   bigint      NOT NULL,
    charge_balance bigint      NOT NULL,
    free_in        numeric     NOT NULL,
    charge_in      numeric     NOT NULL,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    app_no         integer     NOT NULL,
    archive_no     integer     NOT NULL,
    chain_hash     bytea       NOT NULL,
    CONSTRAINT archived_wallets_pkey PRIMARY KEY (app_no, wallet_no, archive_no),
    CONSTRAINT archived_wallets_seq_positive CHECK (seq >= 1),
    CONSTRAINT archived_wallets_free_balance_not_negative CHECK (free_balance >= 0),
    CONSTRAINT archived_wallets_charge_balance_not_negative CHECK (charge_balance >= 0),
    CONSTRAINT archived_wallets_chain_hash_length CHECK (octet_length(chain_hash) = 32)
);
COMMENT ON TABLE archived_wallets IS 'The state of a wallet after its last entry in an archive. The ledger goes on from the newest one.';
COMMENT ON COLUMN archived_wallets.wallet_no IS 'The wallet.';
COMMENT ON COLUMN archived_wallets.seq IS 'Sequence number of that entry.';
COMMENT ON COLUMN archived_wallets.free_balance IS 'Gifted currency after it.';
COMMENT ON COLUMN archived_wallets.charge_balance IS 'Charged currency after it.';
COMMENT ON COLUMN archived_wallets.free_in IS 'Gifted currency that came in, from the first entry of the wallet to this one.';
COMMENT ON COLUMN archived_wallets.charge_in IS 'Charged currency that came in, from the first entry of the wallet to this one.';
COMMENT ON COLUMN archived_wallets.first_at IS 'Time of the first entry of the wallet.';
COMMENT ON COLUMN archived_wallets.last_at IS 'Time of that entry.';
COMMENT ON COLUMN archived_wallets.app_no IS 'The app.';
COMMENT ON COLUMN archived_wallets.archive_no IS 'The archive.';
COMMENT ON COLUMN archived_wallets.chain_hash IS 'Hash of that entry.';

CREATE VIEW archived_standings AS
SELECT DISTINCT ON (app_no, wallet_no) app_no, wallet_no, seq, free_balance, charge_balance, chain_hash
FROM archived_wallets ORDER BY app_no, wallet_no, archive_no DESC;
COMMENT ON VIEW archived_standings IS 'The newest state of each wallet in an archive. Its ledger goes on from there.';

CREATE TABLE archived_entries (
    wallet_no      bigint      NOT NULL,
    at             timestamptz NOT NULL,
    free_change    bigint      NOT NULL,
    charge_change  bigint      NOT NULL,
    seq            bigint,
    free_balance   bigint,
    charge_balance bigint,
    remaining      bigint,
    app_no         integer     NOT NULL,
    pay_priority   smallint,
    kind           text        COLLATE "C" NOT NULL,
    reference      text        COLLATE "C" NOT NULL,
    item_id        bytea,
    zone_id        text,
    remark         text,
    of_biz_no      text        COLLATE "C",
    CONSTRAINT archived_entries_pkey PRIMARY KEY (app_no, reference),
    CONSTRAINT archived_entries_kind_known CHECK (
        kind IN ('exchange', 'present', 'cancel', 'closed', 'credit', 'debit')),
    CONSTRAINT archived_entries_closed_is_no_entry CHECK ((kind = 'closed') = (seq IS NULL)),
    CONSTRAINT archived_entries_cancel_names_exchange CHECK (
        (kind = 'cancel') = (of_biz_no IS NOT NULL) AND (of_biz_no IS NULL) = (remaining IS NULL))
);
COMMENT ON TABLE archived_entries IS 'What stays of the rows of ledger_entries that were archived: the number, and what answers to a later call need. A biz_no or ref still takes effect at most once.';
COMMENT ON COLUMN archived_entries.wallet_no IS 'The wallet.';
COMMENT ON COLUMN archived_entries.at IS 'Time of the entry.';
COMMENT ON COLUMN archived_entries.free_change IS 'Change of the gifted purse.';
COMMENT ON COLUMN archived_entries.charge_change IS 'Change of the charged purse.';
COMMENT ON COLUMN archived_entries.seq IS 'Sequence number of the entry in its wallet. Null for a closed biz_no.';
COMMENT ON COLUMN archived_entries.free_balance IS 'Gifted currency after an operator''s entry, which is replayed for ever. Null for others.';
COMMENT ON COLUMN archived_entries.charge_balance IS 'Charged currency after an operator''s entry. Null for others.';
COMMENT ON COLUMN archived_entries.remaining IS 'What could still be given back after this cancel. Null for other kinds.';
COMMENT ON COLUMN archived_entries.app_no IS 'The app.';
COMMENT ON COLUMN archived_entries.pay_priority IS 'Effective priority of an exchange. Null for other kinds.';
COMMENT ON COLUMN archived_entries.kind IS 'A kind of ledger_entries.';
COMMENT ON COLUMN archived_entries.reference IS 'The biz_no, or an exclamation mark and the ref.';
COMMENT ON COLUMN archived_entries.item_id IS 'What was bought. Null for other kinds than exchange.';
COMMENT ON COLUMN archived_entries.zone_id IS 'Zone and role, as sent. Null for an operator''s entry.';
COMMENT ON COLUMN archived_entries.remark IS 'Note of an operator''s entry. Null for others.';
COMMENT ON COLUMN archived_entries.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';
CREATE INDEX archived_entries_cancels ON archived_entries (app_no, of_biz_no, remaining) WHERE of_biz_no IS NOT NULL;

CREATE INDEX archived_entries_at ON archived_entries (app_no, at);

CREATE VIEW archived_hashes AS
SELECT e.app_no, e.wallet_no, hash_record_extended(ROW(e.app_no, e.reference, e.wallet_no, e.seq, e.kind, e.at, e.free_change,
        e.charge_change, e.free_balance, e.charge_balance, e.remaining, e.pay_priority, e.item_id, e.zone_id, e.remark,
        e.of_biz_no), 0)::numeric AS hash,
    (SELECT min(w.archive_no) FROM archived_wallets w
     WHERE w.app_no = e.app_no AND w.wallet_no = e.wallet_no AND w.seq >= e.seq) AS archive_no
FROM archived_entries e;
COMMENT ON VIEW archived_hashes IS 'The hash of each archived row, and the archive that has it. A closed number has no archive here.';

CREATE VIEW archived_digests AS
SELECT app_no, sum(hash) AS digest FROM archived_hashes GROUP BY app_no;
COMMENT ON VIEW archived_digests IS 'Sum of the hashes of all archived rows of each app.';

CREATE VIEW numbers AS
SELECT app_no, reference, wallet_no, seq, kind, free_change, charge_change, free_balance, charge_balance, remaining,
    of_biz_no, pay_priority, item_id, zone_id, extension, remark, at, false AS is_archived
FROM ledger_entries
UNION ALL
SELECT app_no, reference, wallet_no, seq, kind, free_change, charge_change, coalesce(free_balance, 0),
    coalesce(charge_balance, 0), remaining, of_biz_no, pay_priority, item_id, zone_id, NULL, remark, at, true
FROM archived_entries;
COMMENT ON VIEW numbers IS 'Every number that was ever used, with what decides about its next use.';

CREATE VIEW sales AS
SELECT app_no, at, item_id, zone_id, 1 AS count, -free_change AS free_taken, -charge_change AS charge_taken,
    0::bigint AS free_given_back, 0::bigint AS charge_given_back
FROM ledger_entries WHERE kind = 'exchange'
UNION ALL
SELECT app_no, at, item_id, zone_id, 1, -free_change, -charge_change, 0, 0 FROM archived_entries WHERE kind = 'exchange'
UNION ALL
SELECT c.app_no, c.at, coalesce(x.item_id, a.item_id), coalesce(x.zone_id, a.zone_id), 0, 0, 0, c.free_change,
    c.charge_change
FROM ledger_entries c
LEFT JOIN ledger_entries x ON x.app_no = c.app_no AND x.reference = c.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = c.app_no AND a.reference = c.of_biz_no
WHERE c.kind = 'cancel'
UNION ALL
SELECT c.app_no, c.at, coalesce(x.item_id, a.item_id), coalesce(x.zone_id, a.zone_id), 0, 0, 0, c.free_change,
    c.charge_change
FROM archived_entries c
LEFT JOIN ledger_entries x ON x.app_no = c.app_no AND x.reference = c.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = c.app_no AND a.reference = c.of_biz_no
WHERE c.kind = 'cancel';
COMMENT ON VIEW sales IS 'What exchanges took and what cancels gave back, each under the item and the zone of its exchange (contract 13.2).';

CREATE VIEW sold_entries AS
SELECT e.app_no, e.wallet_no, e.seq, e.at, coalesce(e.item_id, x.item_id, a.item_id) AS item_id,
    CASE WHEN e.kind = 'exchange' THEN e.zone_id ELSE coalesce(x.zone_id, a.zone_id) END AS zone_id,
    CASE WHEN e.kind = 'exchange' THEN 1 ELSE 0 END AS count,
    CASE WHEN e.kind = 'exchange' THEN -e.free_change ELSE 0 END AS free_taken,
    CASE WHEN e.kind = 'exchange' THEN -e.charge_change ELSE 0 END AS charge_taken,
    CASE WHEN e.kind = 'cancel' THEN e.free_change ELSE 0 END AS free_given_back,
    CASE WHEN e.kind = 'cancel' THEN e.charge_change ELSE 0 END AS charge_given_back
FROM ledger_entries e
LEFT JOIN ledger_entries x ON x.app_no = e.app_no AND x.reference = e.of_biz_no
LEFT JOIN archived_entries a ON a.app_no = e.app_no AND a.reference = e.of_biz_no
WHERE e.kind IN ('exchange', 'cancel');
COMMENT ON VIEW sold_entries IS 'The same of the ledger alone, with the keys of its entries. Entries can be joined by their keys, which PostgreSQL does not push into a union.';

CREATE TABLE sales_hours (
    app_no            integer     NOT NULL,
    cut               smallint    NOT NULL,
    hour              timestamptz NOT NULL,
    product_name      text        COLLATE "C" NOT NULL,
    zone              text        COLLATE "C" NOT NULL,
    count             bigint      NOT NULL,
    free_taken        numeric     NOT NULL,
    charge_taken      numeric     NOT NULL,
    free_given_back   numeric     NOT NULL,
    charge_given_back numeric     NOT NULL,
    CONSTRAINT sales_hours_pkey PRIMARY KEY (app_no, cut, hour, product_name, zone),
    CONSTRAINT sales_hours_cut_known CHECK (cut IN (1, 2, 3))
) WITH (fillfactor = 70);
COMMENT ON TABLE sales_hours IS 'Sums of the view sales by the hour (contract 13.2). They have the entries whose events have numbers up to sales_head.';
COMMENT ON COLUMN sales_hours.app_no IS 'The app.';
COMMENT ON COLUMN sales_hours.cut IS '1: by zone. 2: by product. 3: by both. Each report reads the smallest of them that has its groups.';
COMMENT ON COLUMN sales_hours.hour IS 'Beginning of the hour (UTC).';
COMMENT ON COLUMN sales_hours.product_name IS 'Name of what was bought. Empty in sums of all products.';
COMMENT ON COLUMN sales_hours.zone IS 'The zone. Empty in sums of all zones.';
COMMENT ON COLUMN sales_hours.count IS 'Number of exchanges.';
COMMENT ON COLUMN sales_hours.free_taken IS 'Gifted currency that exchanges took. Sums may need more than 64 bits.';
COMMENT ON COLUMN sales_hours.charge_taken IS 'Charged currency that exchanges took.';
COMMENT ON COLUMN sales_hours.free_given_back IS 'Gifted currency that cancels gave back in this hour.';
COMMENT ON COLUMN sales_hours.charge_given_back IS 'Charged currency that cancels gave back in this hour.';

CREATE TABLE sales_head (
    id         smallint NOT NULL,
    through_no bigint   NOT NULL,
    CONSTRAINT sales_head_pkey PRIMARY KEY (id),
    CONSTRAINT sales_head_single CHECK (id = 1)
) WITH (fillfactor = 20);
COMMENT ON TABLE sales_head IS 'How far sales_hours has come. There is one row. A transaction that adds to sales_hours holds it.';
COMMENT ON COLUMN sales_head.id IS '1.';
COMMENT ON COLUMN sales_head.through_no IS 'Number of the last event that is in sales_hours. 0 before the first.';
INSERT INTO sales_head (id, through_no) VALUES (1, 0);

-- Names in place of numbers, for readers that are not in a hurry.

CREATE VIEW players AS
SELECT a.app_id, w.open_id, w.free_balance, w.charge_balance, w.entry_count, w.chain_hash, w.created_at, w.app_no,
    w.wallet_no
FROM wallets w JOIN apps a ON a.app_no = w.app_no;
COMMENT ON VIEW players IS 'The wallets with the ids of their apps.';

CREATE VIEW ledger AS
SELECT a.app_id, w.open_id, e.seq, e.kind, ltrim(e.reference, '!') AS reference,
    e.reference LIKE '!%' AS by_operator, e.reference AS entry_reference, e.of_biz_no, e.remaining, e.free_change, e.charge_change, e.free_balance,
    e.charge_balance, e.at, e.chain_hash, e.ts, e.pay_priority, e.zone_id, e.os, e.user_ip, e.extension, e.remark,
    i.product_name, i.product_info, i.product_desc, e.app_no, e.wallet_no
FROM ledger_entries e
JOIN apps a ON a.app_no = e.app_no
JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id;
COMMENT ON VIEW ledger IS 'The ledger entries with the ids of apps and players, references as games and operators sent them, and the texts of items.';

CREATE VIEW bill_lines AS
SELECT e.app_no, e.wallet_no, e.at, w.open_id, e.seq, e.kind,
    CASE WHEN e.reference NOT LIKE '!%' THEN e.reference END AS biz_no,
    CASE WHEN e.reference LIKE '!%' THEN substr(e.reference, 2) END AS ref,
    e.free_change, e.charge_change, e.free_balance, e.charge_balance, e.zone_id, i.product_name
FROM (
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change, free_balance, charge_balance,
        zone_id, item_id
    FROM ledger_entries WHERE seq IS NOT NULL
    UNION ALL
    SELECT app_no, wallet_no, at, seq, kind, reference, free_change, charge_change,
        (sum(free_change) OVER earlier)::bigint, (sum(charge_change) OVER earlier)::bigint, zone_id, item_id
    FROM archived_entries WHERE seq IS NOT NULL
    WINDOW earlier AS (PARTITION BY app_no, wallet_no ORDER BY seq)
) e
LEFT JOIN wallets w ON w.app_no = e.app_no AND w.wallet_no = e.wallet_no
LEFT JOIN items i ON i.app_no = e.app_no AND i.item_id = e.item_id;
COMMENT ON VIEW bill_lines IS 'Every ledger entry as the bill shows it, archived ones too. The balances of an archived entry are the sums from the first entry of its wallet, because archives take entries from the first on.';

CREATE TABLE exchange_replays (
    app_id   text        NOT NULL,
    biz_no   text        NOT NULL,
    replays  bigint      NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    CONSTRAINT exchange_replays_pkey PRIMARY KEY (app_id, biz_no),
    CONSTRAINT exchange_replays_positive CHECK (replays >= 1)
) WITH (fillfactor = 70);
COMMENT ON TABLE exchange_replays IS 'Number of replays of each exchange. A process counts in memory and writes once a second. Counts that it has not written are lost when it ends, and while the database is away. A row is removed 30 days after its last replay.';
COMMENT ON COLUMN exchange_replays.app_id IS 'The app.';
COMMENT ON COLUMN exchange_replays.biz_no IS 'Order number of the exchange that was replayed.';
COMMENT ON COLUMN exchange_replays.replays IS 'Number of replays. The first success does not count.';
COMMENT ON COLUMN exchange_replays.first_at IS 'Database time when the first replay was written, about a second after it.';
COMMENT ON COLUMN exchange_replays.last_at IS 'Database time when the last replay was written.';

CREATE TABLE exchange_refusals (
    app_id     text        NOT NULL,
    biz_no     text        NOT NULL,
    open_id    text        NOT NULL,
    code       bigint      NOT NULL,
    kind       text        NOT NULL,
    first_at   timestamptz NOT NULL,
    last_at    timestamptz NOT NULL,
    count      bigint      NOT NULL,
    request_id text        NOT NULL,
    CONSTRAINT exchange_refusals_pkey PRIMARY KEY (app_id, biz_no, open_id, code),
    CONSTRAINT exchange_refusals_kind_known CHECK (kind IN ('exchange', 'present', 'cancel')),
    CONSTRAINT exchange_refusals_count_positive CHECK (count >= 1)
);
COMMENT ON TABLE exchange_refusals IS 'Refused exchanges, presents and cancels that were properly signed (contract 13.1). A process notes them in memory and writes once a second. What it has not written is lost when it ends. A row is removed 30 days after its last refusal, and when the app has 100,000 newer rows.';
COMMENT ON COLUMN exchange_refusals.app_id IS 'The app.';
COMMENT ON COLUMN exchange_refusals.biz_no IS 'The number, which was not used.';
COMMENT ON COLUMN exchange_refusals.open_id IS 'The player. The app may not know it.';
COMMENT ON COLUMN exchange_refusals.code IS 'Code of the answer.';
COMMENT ON COLUMN exchange_refusals.kind IS 'What was asked for the last time: exchange, present or cancel.';
COMMENT ON COLUMN exchange_refusals.first_at IS 'Database time of the first refusal.';
COMMENT ON COLUMN exchange_refusals.last_at IS 'Database time of the last refusal.';
COMMENT ON COLUMN exchange_refusals.count IS 'Number of refusals.';
COMMENT ON COLUMN exchange_refusals.request_id IS 'Id of the last request.';
CREATE INDEX exchange_refusals_of_player ON exchange_refusals (app_id, open_id, last_at);
-- The oldest of an app.
CREATE INDEX exchange_refusals_oldest ON exchange_refusals (app_id, last_at);

CREATE TABLE audits (
    scope           text        NOT NULL,
    started_at      timestamptz NOT NULL,
    id              bigint      NOT NULL,
    finished_at     timestamptz NOT NULL,
    entries         bigint      NOT NULL,
    differences     bigint      NOT NULL,
    program_version text        NOT NULL,
    CONSTRAINT audits_pkey PRIMARY KEY (scope, started_at, id),
    CONSTRAINT audits_scope_known CHECK (scope IN ('full', 'since')),
    CONSTRAINT audits_counts_not_negative CHECK (entries >= 0 AND differences >= 0)
);
COMMENT ON TABLE audits IS 'Result of each audit that was completed. The audit writes the row. A row is never updated and never deleted.';
COMMENT ON COLUMN audits.scope IS 'full for an audit of everything, since for an audit from a checkpoint.';
COMMENT ON COLUMN audits.started_at IS 'Database time of the snapshot that was audited.';
COMMENT ON COLUMN audits.id IS 'Random number from the program. It distinguishes audits of the same time.';
COMMENT ON COLUMN audits.finished_at IS 'Database time when this row was written.';
COMMENT ON COLUMN audits.entries IS 'Number of ledger entries that were checked.';
COMMENT ON COLUMN audits.differences IS 'Number of differences. 0 is a clean audit.';
COMMENT ON COLUMN audits.program_version IS 'Version of the program.';

-- Packages, points of interest and orders (contract 4 and 8.2).

CREATE TABLE packages (
    app_id       text        NOT NULL,
    version      text        NOT NULL,
    pages        text[]      NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT packages_pkey PRIMARY KEY (app_id, version)
);
COMMENT ON TABLE packages IS 'Published versions of packages and their pages. The latest published version decides which order_path is accepted.';
COMMENT ON COLUMN packages.app_id IS 'The app.';
COMMENT ON COLUMN packages.version IS 'Version of the package. Publishing it again replaces its pages and makes it the latest.';
COMMENT ON COLUMN packages.pages IS 'Paths of the pages, without a leading slash.';
COMMENT ON COLUMN packages.published_at IS 'Time of the last publication.';

CREATE TABLE pois (
    app_id        text        NOT NULL,
    poi_id        text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pois_pkey PRIMARY KEY (app_id, poi_id)
);
COMMENT ON TABLE pois IS 'Points of interest that an order may name.';
COMMENT ON COLUMN pois.app_id IS 'The app.';
COMMENT ON COLUMN pois.poi_id IS 'Id of the point of interest.';
COMMENT ON COLUMN pois.registered_at IS 'Time when the operator registered it.';

CREATE TABLE preorders (
    app_id        text        NOT NULL,
    out_order_no  text        NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT preorders_pkey PRIMARY KEY (app_id, out_order_no)
);
COMMENT ON TABLE preorders IS 'Payment pre-orders. An app with preorder_check needs them.';
COMMENT ON COLUMN preorders.app_id IS 'The app.';
COMMENT ON COLUMN preorders.out_order_no IS 'Number of the payment pre-order.';
COMMENT ON COLUMN preorders.registered_at IS 'Time when the operator registered it.';

CREATE TABLE orders (
    app_id               text        NOT NULL,
    out_biz_order_no     text        NOT NULL,
    out_order_no         text        NOT NULL,
    open_id              text        NOT NULL,
    order_create_time    bigint      NOT NULL,
    order_status         smallint    NOT NULL,
    goods_kind           text,
    order_path           text        NOT NULL,
    product_cover_img_id text        NOT NULL,
    order_backup_url     text,
    poi_id               text,
    product_id           text,
    product_catalog_code bigint,
    product_city         text,
    event_count          bigint      NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT orders_pkey PRIMARY KEY (app_id, out_biz_order_no),
    CONSTRAINT orders_status_known CHECK (order_status IN (1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15)),
    CONSTRAINT orders_goods_kind_known CHECK (goods_kind IN ('virtual', 'physical'))
) WITH (fillfactor = 85);
COMMENT ON TABLE orders IS 'Present state of each reported order. The free space in each page keeps updates away from the indexes.';
COMMENT ON COLUMN orders.app_id IS 'The app.';
COMMENT ON COLUMN orders.out_biz_order_no IS 'Order number that the player sees.';
COMMENT ON COLUMN orders.out_order_no IS 'Payment pre-order number of the last report.';
COMMENT ON COLUMN orders.open_id IS 'The player. It does not change.';
COMMENT ON COLUMN orders.order_create_time IS 'Time of the order in milliseconds. It does not change.';
COMMENT ON COLUMN orders.order_status IS 'Status code of the last report (contract 4.3).';
COMMENT ON COLUMN orders.goods_kind IS 'virtual after a status of 10 or 11, physical after one of 12 to 15. Null before.';
COMMENT ON COLUMN orders.order_path IS 'Path in the app, as sent.';
COMMENT ON COLUMN orders.product_cover_img_id IS 'Cover image.';
COMMENT ON COLUMN orders.order_backup_url IS 'Fallback web link.';
COMMENT ON COLUMN orders.poi_id IS 'Point of interest.';
COMMENT ON COLUMN orders.product_id IS 'Id in the product library.';
COMMENT ON COLUMN orders.product_catalog_code IS 'Product category code.';
COMMENT ON COLUMN orders.product_city IS 'City of the product.';
COMMENT ON COLUMN orders.event_count IS 'Sequence number of the last event.';
COMMENT ON COLUMN orders.created_at IS 'Database time of the first report.';
COMMENT ON COLUMN orders.updated_at IS 'Database time of the last report that changed the order.';
-- These columns never change, but for the cover image, and that seldom.
-- Newest orders of an app. A search through all apps reads app by app.
CREATE INDEX orders_newest ON orders (app_id, order_create_time, out_biz_order_no);
-- Orders of a player, as in the order center (contract 8.6.7).
CREATE INDEX orders_of_player ON orders (app_id, open_id, order_create_time, out_biz_order_no);
-- Orders that use an image.
CREATE INDEX orders_with_cover ON orders (app_id, product_cover_img_id);

CREATE TABLE order_payments (
    app_id           text        NOT NULL,
    out_order_no     text        NOT NULL,
    out_biz_order_no text        NOT NULL,
    first_seen_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_payments_pkey PRIMARY KEY (app_id, out_order_no)
);
COMMENT ON TABLE order_payments IS 'Every payment attempt of every order. A payment pre-order number belongs to one order only (contract 4.5).';
COMMENT ON COLUMN order_payments.app_id IS 'The app.';
COMMENT ON COLUMN order_payments.out_order_no IS 'Payment pre-order number.';
COMMENT ON COLUMN order_payments.out_biz_order_no IS 'The order that it belongs to.';
COMMENT ON COLUMN order_payments.first_seen_at IS 'Database time of the first report with this number.';

CREATE TABLE order_events (
    app_id           text        NOT NULL,
    out_biz_order_no text        NOT NULL,
    seq              bigint      NOT NULL,
    order_status     smallint    NOT NULL,
    report           jsonb       NOT NULL,
    at               timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT order_events_pkey PRIMARY KEY (app_id, out_biz_order_no, seq)
);
COMMENT ON TABLE order_events IS 'Every report that changed an order.';
COMMENT ON COLUMN order_events.app_id IS 'The app.';
COMMENT ON COLUMN order_events.out_biz_order_no IS 'The order.';
COMMENT ON COLUMN order_events.seq IS '1 for the first report of an order. Each report that changes it adds one.';
COMMENT ON COLUMN order_events.order_status IS 'Status code after this report.';
COMMENT ON COLUMN order_events.report IS 'The order after this report.';
COMMENT ON COLUMN order_events.at IS 'Database time of the report.';

-- Images and pictures (contract 5). An image is the upload of an app. Blobs hold the bytes. They are
-- stored once, whoever uploads them: in picture_parts, or as an object that picture_objects names.

CREATE TABLE images (
    app_id          text        NOT NULL,
    img_id          text        NOT NULL,
    sha256          bytea       NOT NULL,
    format          text        NOT NULL,
    side            integer     NOT NULL,
    byte_length     integer     NOT NULL,
    content_sha256  bytea       NOT NULL,
    perceptual_hash bigint,
    blocked_by      bytea,
    uploaded_at     timestamptz NOT NULL DEFAULT now(),
    is_reported     boolean     NOT NULL DEFAULT false,
    last_uploaded_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT images_pkey PRIMARY KEY (app_id, img_id),
    CONSTRAINT images_sha256_unique UNIQUE (app_id, sha256),
    CONSTRAINT images_format_known CHECK (format IN ('png', 'jpeg')),
    CONSTRAINT images_side_positive CHECK (side >= 1)
);
COMMENT ON TABLE images IS 'Cover images that were accepted.';
COMMENT ON COLUMN images.app_id IS 'The app that uploaded the image. No other app can use it.';
COMMENT ON COLUMN images.img_id IS '48 lower-case hexadecimal characters, random, valid for ever.';
COMMENT ON COLUMN images.sha256 IS 'SHA-256 of the picture as it was uploaded, without bytes after its end. The same bytes give the same img_id again.';
COMMENT ON COLUMN images.format IS 'png or jpeg, from the bytes.';
COMMENT ON COLUMN images.side IS 'Width and height in pixels.';
COMMENT ON COLUMN images.byte_length IS 'Number of bytes of the blob.';
COMMENT ON COLUMN images.content_sha256 IS 'SHA-256 of the blob: the picture without its metadata.';
COMMENT ON COLUMN images.perceptual_hash IS 'Perceptual hash, 64 bits. Null when the picture has too little detail.';
COMMENT ON COLUMN images.blocked_by IS 'The block that the image falls under: content_sha256 of picture_blocks. Null when the image is not blocked.';
COMMENT ON COLUMN images.uploaded_at IS 'Database time of the first upload.';
COMMENT ON COLUMN images.is_reported IS 'True when an order report has named the image, now or earlier. It never becomes false.';
COMMENT ON COLUMN images.last_uploaded_at IS 'Database time of the last upload of the same picture by the app, while no report had named it.';
CREATE UNIQUE INDEX images_img_id ON images (img_id);
CREATE INDEX images_content_sha256 ON images (content_sha256);
-- Newest images of all apps, and of one app.
CREATE INDEX images_uploaded_at ON images (uploaded_at, img_id);
CREATE INDEX images_of_app ON images (app_id, uploaded_at, img_id);
-- Images that fall under a block.
CREATE INDEX images_blocked_by ON images (blocked_by) WHERE blocked_by IS NOT NULL;
-- Images that may be swept, the oldest first.
CREATE INDEX images_unreported ON images (last_uploaded_at) WHERE NOT is_reported;

CREATE TABLE image_usage (
    app_id       text   NOT NULL,
    day          date   NOT NULL,
    bytes_today  bigint NOT NULL,
    bytes        bigint NOT NULL,
    images_today bigint NOT NULL,
    images       bigint NOT NULL,
    CONSTRAINT image_usage_pkey PRIMARY KEY (app_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE image_usage IS 'What each app stores. The transaction that keeps an image counts it here, and compares with the quotas.';
COMMENT ON COLUMN image_usage.app_id IS 'The app.';
COMMENT ON COLUMN image_usage.day IS 'Day (UTC) of the last new image, by the database''s clock.';
COMMENT ON COLUMN image_usage.bytes_today IS 'Bytes of the new images of that day.';
COMMENT ON COLUMN image_usage.bytes IS 'Bytes of all images of the app, as images.byte_length has them.';
COMMENT ON COLUMN image_usage.images_today IS 'Number of new images of that day.';
COMMENT ON COLUMN image_usage.images IS 'Number of all images of the app.';

CREATE TABLE picture_parts (
    content_sha256 bytea   NOT NULL,
    part           integer NOT NULL,
    bytes          bytea   NOT NULL,
    CONSTRAINT picture_parts_pkey PRIMARY KEY (content_sha256, part),
    CONSTRAINT picture_parts_part_not_negative CHECK (part >= 0)
);
COMMENT ON TABLE picture_parts IS 'Blobs in the database, in parts of 256 KiB. PostgreSQL does not compress them, because pictures are compressed already.';
COMMENT ON COLUMN picture_parts.content_sha256 IS 'SHA-256 of the blob.';
COMMENT ON COLUMN picture_parts.part IS 'Position of this part, from 0.';
COMMENT ON COLUMN picture_parts.bytes IS '262,144 bytes. The last part has the rest.';
ALTER TABLE picture_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE picture_objects (
    name           text        NOT NULL,
    stored_in      text        NOT NULL,
    content_sha256 bytea       NOT NULL,
    byte_length    integer     NOT NULL,
    is_kept        boolean     NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_objects_pkey PRIMARY KEY (name),
    CONSTRAINT picture_objects_stored_in_known CHECK (stored_in IN ('folder', 's3')),
    CONSTRAINT picture_objects_byte_length_positive CHECK (byte_length >= 1)
);
COMMENT ON TABLE picture_objects IS 'Objects outside the database (contract 5.8). The row exists before the object is written, and is deleted before the object is removed. So an object without a row can be removed.';
COMMENT ON COLUMN picture_objects.name IS '48 lower-case hexadecimal characters, random. A name is used once.';
COMMENT ON COLUMN picture_objects.stored_in IS 'folder or s3.';
COMMENT ON COLUMN picture_objects.content_sha256 IS 'SHA-256 of the blob.';
COMMENT ON COLUMN picture_objects.byte_length IS 'Number of bytes of the blob.';
COMMENT ON COLUMN picture_objects.is_kept IS 'True when the object was written and read back, and images use it. False while it is being written.';
COMMENT ON COLUMN picture_objects.created_at IS 'Database time. An object that is unfinished after an hour was given up.';
CREATE UNIQUE INDEX picture_objects_kept_once ON picture_objects (content_sha256) WHERE is_kept;
CREATE INDEX picture_objects_unfinished ON picture_objects (created_at) WHERE NOT is_kept;

CREATE TABLE picture_stores (
    stored_in text        NOT NULL,
    id        text        NOT NULL,
    made_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_stores_pkey PRIMARY KEY (stored_in),
    CONSTRAINT picture_stores_stored_in_known CHECK (stored_in IN ('folder', 's3'))
);
COMMENT ON TABLE picture_stores IS 'The folder and the S3 store that belong to this database. An object there holds the same id. So a wrong mount or prefix, or the store of another Minitill, is detected before anything is written or removed.';
COMMENT ON COLUMN picture_stores.stored_in IS 'folder or s3.';
COMMENT ON COLUMN picture_stores.id IS '48 lower-case hexadecimal characters, random.';
COMMENT ON COLUMN picture_stores.made_at IS 'Database time.';

CREATE TABLE picture_blocks (
    content_sha256    bytea       NOT NULL,
    reason            text        NOT NULL,
    perceptual_hashes bigint[]    NOT NULL DEFAULT '{}',
    blocked_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_blocks_pkey PRIMARY KEY (content_sha256)
);
COMMENT ON TABLE picture_blocks IS 'Pictures that the operator has blocked for every app, and their near copies (contract 5.5).';
COMMENT ON COLUMN picture_blocks.content_sha256 IS 'SHA-256 of the blocked blob.';
COMMENT ON COLUMN picture_blocks.reason IS 'Reason, for people.';
COMMENT ON COLUMN picture_blocks.perceptual_hashes IS 'Perceptual hashes of the picture and its crops. Empty when the picture has too little detail.';
COMMENT ON COLUMN picture_blocks.blocked_at IS 'Database time.';

CREATE TABLE thumbnails (
    content_sha256 bytea       NOT NULL,
    width          integer     NOT NULL,
    format         text        NOT NULL,
    bytes          bytea       NOT NULL,
    made_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT thumbnails_pkey PRIMARY KEY (content_sha256, width),
    CONSTRAINT thumbnails_format_known CHECK (format IN ('png', 'jpeg')),
    CONSTRAINT thumbnails_width_positive CHECK (width >= 1)
);
COMMENT ON TABLE thumbnails IS 'Small copies of pictures, made at the first request. They can be made again.';
COMMENT ON COLUMN thumbnails.content_sha256 IS 'SHA-256 of the blob that they were made from.';
COMMENT ON COLUMN thumbnails.width IS 'Width and height in pixels.';
COMMENT ON COLUMN thumbnails.format IS 'png or jpeg.';
COMMENT ON COLUMN thumbnails.bytes IS 'The small picture.';
COMMENT ON COLUMN thumbnails.made_at IS 'Database time.';
ALTER TABLE thumbnails ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- Events and their receivers (contract 12).

CREATE TABLE wallet_outbox (
    app_no integer     NOT NULL,
    row_id bytea       NOT NULL,
    at     timestamptz NOT NULL,
    type   text        NOT NULL,
    count  integer     NOT NULL,
    keys   bytea       NOT NULL,
    CONSTRAINT wallet_outbox_pkey PRIMARY KEY (row_id, app_no)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE wallet_outbox IS 'Events of wallets that have no number yet. A transaction that writes ledger entries adds a row for each app and type. The row leaves for the table events soon after the commit. Rows leave in the order of their ids, so the key begins with the id and not with the app.';
COMMENT ON COLUMN wallet_outbox.app_no IS 'The app.';
COMMENT ON COLUMN wallet_outbox.row_id IS 'Six bytes with the time in Unix milliseconds, and ten random bytes. The ids of the events begin with it.';
COMMENT ON COLUMN wallet_outbox.at IS 'Time of the ledger entries.';
COMMENT ON COLUMN wallet_outbox.type IS 'Type of the events.';
COMMENT ON COLUMN wallet_outbox.count IS 'Number of events.';
COMMENT ON COLUMN wallet_outbox.keys IS 'For each event its ledger entry: wallet_no and seq, eight bytes each. EventKeys of the crate domain describes the encoding.';

CREATE TABLE outbox (
    app_id text        NOT NULL,
    row_id bytea       NOT NULL,
    at     timestamptz NOT NULL DEFAULT now(),
    type   text        NOT NULL,
    count  integer     NOT NULL,
    keys   bytea       NOT NULL,
    CONSTRAINT outbox_pkey PRIMARY KEY (row_id, app_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
COMMENT ON TABLE outbox IS 'The same for events of orders and images, which lie on another node where an engine spreads the money.';
COMMENT ON COLUMN outbox.app_id IS 'The app.';
COMMENT ON COLUMN outbox.row_id IS 'As in wallet_outbox.';
COMMENT ON COLUMN outbox.at IS 'Time of the change.';
COMMENT ON COLUMN outbox.type IS 'Type of the events.';
COMMENT ON COLUMN outbox.count IS 'Number of events.';
COMMENT ON COLUMN outbox.keys IS 'For each event its report or its image, as EventKeys of the crate domain describes.';

CREATE TABLE events (
    app_id  text        NOT NULL,
    last_no bigint      NOT NULL,
    at      timestamptz NOT NULL,
    count   integer     NOT NULL,
    type    text        NOT NULL,
    row_id  bytea       NOT NULL,
    keys    bytea       NOT NULL,
    CONSTRAINT events_pkey PRIMARY KEY (app_id, last_no),
    CONSTRAINT events_last_no_unique UNIQUE (last_no),
    CONSTRAINT events_row_id_unique UNIQUE (row_id),
    CONSTRAINT events_count_positive CHECK (count >= 1)
);
COMMENT ON TABLE events IS 'Events of the outbox in the order of the feed. A row holds the events of one transaction, app and type. It is removed after notify.keep, unless a receiver still needs it.';
COMMENT ON COLUMN events.app_id IS 'The app.';
COMMENT ON COLUMN events.last_no IS 'Number of the last event of this row. Numbers go up by one for each event, through all apps.';
COMMENT ON COLUMN events.at IS 'Time of the change.';
COMMENT ON COLUMN events.count IS 'Number of events.';
COMMENT ON COLUMN events.type IS 'Type of the events.';
COMMENT ON COLUMN events.row_id IS 'As in the outbox.';
COMMENT ON COLUMN events.keys IS 'As in the outbox.';

CREATE TABLE event_head (
    id         smallint NOT NULL,
    last_no    bigint   NOT NULL,
    removed_no bigint   NOT NULL,
    CONSTRAINT event_head_pkey PRIMARY KEY (id),
    CONSTRAINT event_head_single CHECK (id = 1),
    CONSTRAINT event_head_numbers_ordered CHECK (0 <= removed_no AND removed_no <= last_no)
) WITH (fillfactor = 20);
COMMENT ON TABLE event_head IS 'The numbers of events. There is one row. A transaction that gives numbers holds it, so numbers become visible in their order.';
COMMENT ON COLUMN event_head.id IS '1.';
COMMENT ON COLUMN event_head.last_no IS 'Number of the newest event. 0 before the first.';
COMMENT ON COLUMN event_head.removed_no IS 'The highest number of a removed event. 0 before the first removal.';
INSERT INTO event_head (id, last_no, removed_no) VALUES (1, 0, 0);

CREATE TABLE receivers (
    app_id           text        NOT NULL,
    receiver_id      text        NOT NULL,
    url              text        NOT NULL,
    types            text[]      NOT NULL,
    format           text        NOT NULL,
    secret           bytea       NOT NULL,
    secret_made_at   timestamptz NOT NULL DEFAULT now(),
    former_secret    bytea,
    former_until     timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    paused_at        timestamptz,
    paused_by        text,
    through_no       bigint      NOT NULL,
    taken            bigint      NOT NULL DEFAULT 0,
    failing_since    timestamptz,
    last_taken_at    timestamptz,
    last_failed_at   timestamptz,
    last_status      smallint,
    last_error       text,
    tries            jsonb       NOT NULL DEFAULT '[]',
    lease            bytea,
    leased_until     timestamptz,
    CONSTRAINT receivers_pkey PRIMARY KEY (app_id, receiver_id),
    CONSTRAINT receivers_format_known CHECK (format IN ('standard', 'platform')),
    CONSTRAINT receivers_former_secret_dated CHECK ((former_secret IS NULL) = (former_until IS NULL)),
    CONSTRAINT receivers_pause_explained CHECK ((paused_at IS NULL) = (paused_by IS NULL)),
    CONSTRAINT receivers_paused_by_known CHECK (paused_by IN ('operator', 'receiver')),
    CONSTRAINT receivers_lease_ends CHECK ((lease IS NULL) = (leased_until IS NULL))
) WITH (fillfactor = 40);
COMMENT ON TABLE receivers IS 'Servers of apps that are told of events.';
COMMENT ON COLUMN receivers.app_id IS 'The app.';
COMMENT ON COLUMN receivers.receiver_id IS 'rcv_ and 16 hexadecimal digits, random.';
COMMENT ON COLUMN receivers.url IS 'Where events are sent.';
COMMENT ON COLUMN receivers.types IS 'Types of events that it is told of. Empty: all.';
COMMENT ON COLUMN receivers.format IS 'standard or platform.';
COMMENT ON COLUMN receivers.secret IS 'Secret that signs, encrypted with AES-256-GCM under the master key. The app id is the associated data.';
COMMENT ON COLUMN receivers.secret_made_at IS 'Time when the secret was made.';
COMMENT ON COLUMN receivers.former_secret IS 'Secret before the present one, encrypted in the same way. Null before the first rotation.';
COMMENT ON COLUMN receivers.former_until IS 'Time until which the former secret signs too.';
COMMENT ON COLUMN receivers.created_at IS 'Time when the operator added the receiver. It gets the events after it.';
COMMENT ON COLUMN receivers.paused_at IS 'Time of the pause. Null while the receiver is not paused.';
COMMENT ON COLUMN receivers.paused_by IS 'operator, or receiver when it answered 410.';
COMMENT ON COLUMN receivers.through_no IS 'Number of the last event that was tried once. Later events wait for their first try.';
COMMENT ON COLUMN receivers.taken IS 'Number of events that it has taken.';
COMMENT ON COLUMN receivers.failing_since IS 'Time of the first failure after the last success. Null while it takes what it gets.';
COMMENT ON COLUMN receivers.last_taken_at IS 'Time of the last success.';
COMMENT ON COLUMN receivers.last_failed_at IS 'Time of the last failure.';
COMMENT ON COLUMN receivers.last_status IS 'HTTP status of the last failure. Null when there was no answer.';
COMMENT ON COLUMN receivers.last_error IS 'What the last failure was, in words.';
COMMENT ON COLUMN receivers.tries IS 'The newest 20 tries, newest first, each with event_id, at, status, error and the beginning of the answer.';
COMMENT ON COLUMN receivers.lease IS 'Random bytes of the instance that sends to this receiver. Null while none does.';
COMMENT ON COLUMN receivers.leased_until IS 'Time when another instance may take over.';

CREATE TABLE deliveries (
    app_id      text        NOT NULL,
    receiver_id text        NOT NULL,
    event_no    bigint      NOT NULL,
    event_id    text        NOT NULL,
    event_at    timestamptz NOT NULL,
    type        text        NOT NULL,
    state       text        NOT NULL,
    tries       integer     NOT NULL,
    next_at     timestamptz,
    not_before  timestamptz,
    last_at     timestamptz,
    status      smallint,
    error       text,
    CONSTRAINT deliveries_pkey PRIMARY KEY (app_id, receiver_id, event_no),
    CONSTRAINT deliveries_state_known CHECK (state IN ('waiting', 'failed', 'taken')),
    CONSTRAINT deliveries_tries_not_negative CHECK (tries >= 0),
    CONSTRAINT deliveries_waiting_is_due CHECK ((state = 'waiting') = (next_at IS NOT NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE deliveries IS 'Events that a receiver did not take at their first try, and events that an operator sent again. A row that does not wait is removed after notify.keep.';
COMMENT ON COLUMN deliveries.app_id IS 'The app.';
COMMENT ON COLUMN deliveries.receiver_id IS 'The receiver.';
COMMENT ON COLUMN deliveries.event_no IS 'Number of the event.';
COMMENT ON COLUMN deliveries.event_id IS 'Id of the event.';
COMMENT ON COLUMN deliveries.event_at IS 'Time of the change.';
COMMENT ON COLUMN deliveries.type IS 'Type of the event.';
COMMENT ON COLUMN deliveries.state IS 'waiting, failed after the last try, or taken.';
COMMENT ON COLUMN deliveries.tries IS 'Number of tries since the event was sent first, or sent again.';
COMMENT ON COLUMN deliveries.next_at IS 'Time of the next try. Null when there is none.';
COMMENT ON COLUMN deliveries.not_before IS 'Time before which the receiver wants no try. Null when it did not ask.';
COMMENT ON COLUMN deliveries.last_at IS 'Time of the last try. Null before the first.';
COMMENT ON COLUMN deliveries.status IS 'HTTP status of the last try. Null when there was no answer.';
COMMENT ON COLUMN deliveries.error IS 'What the last failure was, in words. Null after a success.';
CREATE INDEX deliveries_due ON deliveries (app_id, receiver_id, next_at) WHERE state = 'waiting';

-- Health over time (contract 16).

CREATE TABLE health_minutes (
    at       timestamptz NOT NULL,
    instance text        NOT NULL,
    problems text[]      NOT NULL,
    seen     jsonb       NOT NULL,
    CONSTRAINT health_minutes_pkey PRIMARY KEY (at, instance)
);
COMMENT ON TABLE health_minutes IS 'What each instance saw in each minute. A row is removed after 30 days.';
COMMENT ON COLUMN health_minutes.at IS 'Beginning of the minute, by the clock of the instance.';
COMMENT ON COLUMN health_minutes.instance IS 'Host and public port of the instance.';
COMMENT ON COLUMN health_minutes.problems IS 'What was wrong, as words. Empty when all was well.';
COMMENT ON COLUMN health_minutes.seen IS 'The figures of the minute.';

-- The test world of sandbox apps (contract 15).

CREATE TABLE sandbox_faults (
    app_id   text        NOT NULL,
    target   text        NOT NULL,
    fault    text        NOT NULL,
    delay_ms integer     NOT NULL,
    times    integer     NOT NULL,
    happened integer     NOT NULL DEFAULT 0,
    asked_at timestamptz NOT NULL DEFAULT now(),
    first_at timestamptz,
    last_at  timestamptz,
    CONSTRAINT sandbox_faults_pkey PRIMARY KEY (app_id, target),
    CONSTRAINT sandbox_faults_fault_known CHECK (
        fault IN ('lost', 'unavailable', 'late', 'twice', 'never', 'old')),
    CONSTRAINT sandbox_faults_delay_bounded CHECK (delay_ms BETWEEN 0 AND 60000),
    CONSTRAINT sandbox_faults_times_bounded CHECK (times BETWEEN 1 AND 1000),
    CONSTRAINT sandbox_faults_happened_bounded CHECK (happened BETWEEN 0 AND times)
) WITH (fillfactor = 50);
COMMENT ON TABLE sandbox_faults IS 'Faults that sandbox apps asked for. A row is removed after a week.';
COMMENT ON COLUMN sandbox_faults.app_id IS 'The sandbox app.';
COMMENT ON COLUMN sandbox_faults.target IS 'What the fault happens to: an endpoint, a type of events, or numbers.';
COMMENT ON COLUMN sandbox_faults.fault IS 'What happens.';
COMMENT ON COLUMN sandbox_faults.delay_ms IS 'Delay in milliseconds of what is late. 0 for other faults.';
COMMENT ON COLUMN sandbox_faults.times IS 'How often it was asked for.';
COMMENT ON COLUMN sandbox_faults.happened IS 'How often it has happened.';
COMMENT ON COLUMN sandbox_faults.asked_at IS 'When it was asked for.';
COMMENT ON COLUMN sandbox_faults.first_at IS 'When it happened first.';
COMMENT ON COLUMN sandbox_faults.last_at IS 'When it happened last.';

CREATE TABLE sandbox_shipments (
    app_id    text        NOT NULL,
    biz_no    text        NOT NULL,
    shipments integer     NOT NULL DEFAULT 1,
    first_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT sandbox_shipments_pkey PRIMARY KEY (app_id, biz_no),
    CONSTRAINT sandbox_shipments_positive CHECK (shipments >= 1)
);
COMMENT ON TABLE sandbox_shipments IS 'What sandbox apps say that they shipped. A row is removed after a week.';
COMMENT ON COLUMN sandbox_shipments.app_id IS 'The sandbox app.';
COMMENT ON COLUMN sandbox_shipments.biz_no IS 'Number of the exchange whose items were shipped.';
COMMENT ON COLUMN sandbox_shipments.shipments IS 'How often the game said so.';
COMMENT ON COLUMN sandbox_shipments.first_at IS 'When it said so first.';

-- Operators and the master key (contract 8.5 to 8.7 and 9.4).

CREATE TABLE operator_log (
    app_id        text        NOT NULL,
    at            timestamptz NOT NULL,
    id            bigint      NOT NULL,
    operator_kind text        NOT NULL,
    operator      text        NOT NULL,
    action        text        NOT NULL,
    subject       text        NOT NULL,
    before        jsonb,
    after         jsonb,
    note          text        NOT NULL,
    seq           bigint      NOT NULL,
    chain_hash    bytea       NOT NULL,
    content_hash  bytea       NOT NULL,
    salt          bytea,
    credits       json,
    CONSTRAINT operator_log_pkey PRIMARY KEY (app_id, at, id),
    CONSTRAINT operator_log_operator_named CHECK (operator <> ''),
    CONSTRAINT operator_log_content_hash_length CHECK (octet_length(content_hash) = 32),
    CONSTRAINT operator_log_chain_hash_length CHECK (octet_length(chain_hash) = 32)
);
COMMENT ON TABLE operator_log IS 'A line for each change by an operator, written in the transaction of the change. A line is never deleted. Only the erasure of a player replaces texts of a line (contract 13.7).';
COMMENT ON COLUMN operator_log.app_id IS 'The app that was changed. Empty for a change that concerns all apps.';
COMMENT ON COLUMN operator_log.at IS 'Database time of the line.';
COMMENT ON COLUMN operator_log.id IS 'Random number from the program. It distinguishes lines of the same time on a page.';
COMMENT ON COLUMN operator_log.operator_kind IS 'Face that was used: command_line, console or api_key.';
COMMENT ON COLUMN operator_log.operator IS 'Name of the operator.';
COMMENT ON COLUMN operator_log.action IS 'Action, such as app.suspend.';
COMMENT ON COLUMN operator_log.subject IS 'Object of the action: an app, a player, a version, a picture. Never a secret.';
COMMENT ON COLUMN operator_log.before IS 'State before the change. Null where there was none.';
COMMENT ON COLUMN operator_log.after IS 'State after the change. Null where there is none.';
COMMENT ON COLUMN operator_log.note IS 'Reason from the operator. It may be empty.';
COMMENT ON COLUMN operator_log.credits IS 'Credits of one call, each as [open_id, ref, gifted and charged currency before it, gifted and charged currency after it]. Null for other actions.';
COMMENT ON COLUMN operator_log.seq IS 'Sequence number of the line, from 1.';
COMMENT ON COLUMN operator_log.chain_hash IS 'SHA-256 of the line and of the hash of the line before it.';
COMMENT ON COLUMN operator_log.content_hash IS 'SHA-256 of the salt and of the texts that the line was written with: subject, before, after, note and credits. chain_hash covers it in their place.';
COMMENT ON COLUMN operator_log.salt IS '16 random bytes, so that nobody can guess the texts from content_hash. Null once an erasure has replaced texts; its line has the hash of the new ones.';
-- A list of thousands of credits would take longer to compress than to write.
ALTER TABLE operator_log ALTER COLUMN credits SET STORAGE EXTERNAL;
CREATE INDEX operator_log_at ON operator_log (at, id);
CREATE UNIQUE INDEX operator_log_seq ON operator_log (seq);
-- What operators did to a player, but for ledger entries, which the ledger has.
CREATE INDEX operator_log_of_subject ON operator_log (app_id, subject, at, id)
    WHERE action NOT IN ('wallet.credit', 'wallet.debit', 'wallet.cancel');

CREATE VIEW player_lines AS
SELECT seq, at, id, operator_kind, operator, action, app_id, subject, before, after, note FROM operator_log
WHERE action IN ('wallet.credit', 'wallet.debit', 'wallet.cancel') OR action ~ '^(login_code|change_request|player)[.]';
COMMENT ON VIEW player_lines IS 'The lines of the operator''s log whose subject is a player. A version or a picture may have the same text.';

CREATE TABLE operator_log_head (
    id         smallint NOT NULL,
    seq        bigint   NOT NULL,
    chain_hash bytea    NOT NULL,
    CONSTRAINT operator_log_head_pkey PRIMARY KEY (id),
    CONSTRAINT operator_log_head_single CHECK (id = 1),
    CONSTRAINT operator_log_head_seq_not_negative CHECK (seq >= 0),
    CONSTRAINT operator_log_head_chain_hash_length CHECK (octet_length(chain_hash) = 32)
) WITH (fillfactor = 20);
COMMENT ON TABLE operator_log_head IS 'The newest line of the operator''s log. There is one row. Each change by an operator locks it last, so that the lines are numbered without a gap.';
COMMENT ON COLUMN operator_log_head.id IS '1.';
COMMENT ON COLUMN operator_log_head.seq IS 'Sequence number of the newest line. 0 before the first.';
COMMENT ON COLUMN operator_log_head.chain_hash IS 'Hash of the newest line. 32 zero bytes before the first.';
INSERT INTO operator_log_head (id, seq, chain_hash) VALUES (1, 0, decode(repeat('00', 32), 'hex'));

CREATE TABLE console_users (
    name         text        NOT NULL,
    role         text        NOT NULL,
    apps         text[]      NOT NULL DEFAULT '{}',
    password     text        NOT NULL,
    totp_secret  bytea,
    totp_step    bigint      NOT NULL DEFAULT 0,
    oidc_issuer  text,
    oidc_subject text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT console_users_pkey PRIMARY KEY (name),
    CONSTRAINT console_users_role_known CHECK (role IN ('viewer', 'support', 'finance', 'developer', 'admin')),
    CONSTRAINT console_users_oidc_identity CHECK ((oidc_issuer IS NULL) = (oidc_subject IS NULL))
);
CREATE UNIQUE INDEX console_users_oidc ON console_users (oidc_issuer, oidc_subject);
COMMENT ON TABLE console_users IS 'Users of the console.';
COMMENT ON COLUMN console_users.name IS 'Name for the sign-in and in the operator''s log.';
COMMENT ON COLUMN console_users.role IS 'viewer, who changes nothing, support, finance, developer, or admin.';
COMMENT ON COLUMN console_users.apps IS 'Ids of the apps that the user sees, in order. Empty: all apps.';
COMMENT ON COLUMN console_users.password IS 'Argon2id hash with its salt and parameters, as a PHC string. Empty for a user of an OpenID Connect provider.';
COMMENT ON COLUMN console_users.totp_secret IS 'Secret of the second factor in base32, encrypted with the master key. Null without a second factor.';
COMMENT ON COLUMN console_users.totp_step IS 'Step of the last code that was used: Unix time in units of 30 seconds. A code of this step or an earlier one is refused.';
COMMENT ON COLUMN console_users.oidc_issuer IS 'OpenID Connect provider that signs the user in. Null for a user with a password.';
COMMENT ON COLUMN console_users.oidc_subject IS 'Id of the user at that provider. Null for a user with a password.';
COMMENT ON COLUMN console_users.created_at IS 'Database time.';

CREATE TABLE console_attempts (
    name            text        NOT NULL,
    address         text        NOT NULL,
    failed_attempts integer     NOT NULL,
    locked_until    timestamptz,
    attempted_at    timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT console_attempts_pkey PRIMARY KEY (name, address)
);
COMMENT ON TABLE console_attempts IS 'Sign-in attempts since the last success, by user and address. A row is removed by a success, by an unlock, and a day after its last attempt.';
COMMENT ON COLUMN console_attempts.name IS 'The user. An attempt with an unknown name has no row.';
COMMENT ON COLUMN console_attempts.address IS 'Address of the client: an IPv4 address, or an IPv6 network of 64 bits.';
COMMENT ON COLUMN console_attempts.failed_attempts IS 'Attempts since the last success. An attempt counts before its password is verified.';
COMMENT ON COLUMN console_attempts.locked_until IS 'Database time until which every attempt of this address with this name is refused.';
COMMENT ON COLUMN console_attempts.attempted_at IS 'Database time of the last attempt.';

CREATE TABLE console_recovery_codes (
    name        text  NOT NULL,
    code_sha256 bytea NOT NULL,
    CONSTRAINT console_recovery_codes_pkey PRIMARY KEY (name, code_sha256)
);
COMMENT ON TABLE console_recovery_codes IS 'Codes that take the place of the second factor. The use of a code removes its row.';
COMMENT ON COLUMN console_recovery_codes.name IS 'The user.';
COMMENT ON COLUMN console_recovery_codes.code_sha256 IS 'SHA-256 of the code, which has 80 random bits.';

CREATE TABLE console_sessions (
    token_sha256 bytea       NOT NULL,
    name         text        NOT NULL,
    address      text        NOT NULL DEFAULT '',
    proved_at    timestamptz NOT NULL DEFAULT now(),
    created_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT console_sessions_pkey PRIMARY KEY (token_sha256)
);
COMMENT ON TABLE console_sessions IS 'Sessions of the console. A session ends 12 hours after its start, 30 minutes after its last use, at sign-out, and when its user changes.';
COMMENT ON COLUMN console_sessions.token_sha256 IS 'SHA-256 of the 256 random bits that the browser holds.';
COMMENT ON COLUMN console_sessions.name IS 'The user.';
COMMENT ON COLUMN console_sessions.address IS 'Address of the browser at the sign-in, as in console_attempts.';
COMMENT ON COLUMN console_sessions.proved_at IS 'Database time when the user last typed the password, or proved to the OpenID Connect provider who they are.';
COMMENT ON COLUMN console_sessions.created_at IS 'Database time.';
COMMENT ON COLUMN console_sessions.used_at IS 'Database time of the last request, to the minute.';
CREATE INDEX console_sessions_name ON console_sessions (name);

CREATE TABLE console_requests (
    app_id    text        NOT NULL,
    ref       text        NOT NULL,
    kind      text        NOT NULL,
    open_id   text        NOT NULL,
    free      bigint      NOT NULL,
    charge    bigint      NOT NULL,
    create_wallet boolean NOT NULL,
    of_biz_no text,
    amount    bigint,
    reason    text        NOT NULL,
    asked_by  text        NOT NULL,
    asked_at  timestamptz NOT NULL DEFAULT now(),
    state     text        NOT NULL DEFAULT 'waiting',
    ended_by  text,
    ended_at  timestamptz,
    give_back_max bigint,
    CONSTRAINT console_requests_pkey PRIMARY KEY (app_id, ref),
    CONSTRAINT console_requests_kind_known CHECK (kind IN ('credit', 'debit', 'cancel')),
    CONSTRAINT console_requests_amounts_not_negative CHECK (free >= 0 AND charge >= 0 AND amount >= 1),
    CONSTRAINT console_requests_cancel_names_exchange CHECK (
        (kind = 'cancel') = (of_biz_no IS NOT NULL) AND (of_biz_no IS NULL) = (amount IS NULL)),
    CONSTRAINT console_requests_state_known CHECK (state IN ('waiting', 'confirmed', 'refused')),
    CONSTRAINT console_requests_end_told CHECK (
        (state = 'waiting') = (ended_by IS NULL) AND (ended_by IS NULL) = (ended_at IS NULL)),
    CONSTRAINT console_requests_second_person CHECK (state <> 'confirmed' OR ended_by <> asked_by)
);
COMMENT ON TABLE console_requests IS 'Large changes of wallets that one user of the console asked for and an admin confirms or refuses, who is somebody else (contract 8.6.40). A request that waits for 7 days has ended. A row is never deleted, so a ref is asked for once.';
COMMENT ON COLUMN console_requests.app_id IS 'The app.';
COMMENT ON COLUMN console_requests.ref IS 'Ref of the change.';
COMMENT ON COLUMN console_requests.kind IS 'credit, debit or cancel, as in the ledger.';
COMMENT ON COLUMN console_requests.open_id IS 'The player.';
COMMENT ON COLUMN console_requests.free IS 'Gifted currency to add or to take. 0 for a cancel.';
COMMENT ON COLUMN console_requests.charge IS 'Charged currency to add or to take. 0 for a cancel.';
COMMENT ON COLUMN console_requests.create_wallet IS 'Whether a credit makes the player known.';
COMMENT ON COLUMN console_requests.of_biz_no IS 'The exchange that a cancel gives back. Null for other kinds.';
COMMENT ON COLUMN console_requests.amount IS 'How much of it. Null for other kinds.';
COMMENT ON COLUMN console_requests.reason IS 'Reason from the user who asked.';
COMMENT ON COLUMN console_requests.asked_by IS 'User of the console who asked.';
COMMENT ON COLUMN console_requests.asked_at IS 'Database time.';
COMMENT ON COLUMN console_requests.state IS 'waiting, confirmed in the transaction of the change, or refused.';
COMMENT ON COLUMN console_requests.ended_by IS 'User who confirmed or refused. Null while it waits.';
COMMENT ON COLUMN console_requests.ended_at IS 'Database time. Null while it waits.';
COMMENT ON COLUMN console_requests.give_back_max IS 'How many coins of the exchange the role of who asked gives back. Null: all of them, and for other kinds.';
CREATE INDEX console_requests_waiting ON console_requests (asked_at) WHERE state = 'waiting';

CREATE TABLE api_keys (
    name         text        NOT NULL,
    role         text        NOT NULL,
    apps         text[]      NOT NULL DEFAULT '{}',
    key_sha256   bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    revoked_at   timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (name),
    CONSTRAINT api_keys_role_known CHECK (role IN ('viewer', 'support', 'finance', 'developer', 'admin'))
);
COMMENT ON TABLE api_keys IS 'Keys of the admin API. A row has only the hash of a key. A row is never deleted, so a name in the operator''s log means one key for ever.';
COMMENT ON COLUMN api_keys.name IS 'Name in the operator''s log.';
COMMENT ON COLUMN api_keys.role IS 'viewer, who may only read, support, finance, developer, or admin.';
COMMENT ON COLUMN api_keys.apps IS 'Ids of the apps that the key sees, in order. Empty: all apps.';
COMMENT ON COLUMN api_keys.key_sha256 IS 'SHA-256 of the key.';
COMMENT ON COLUMN api_keys.created_at IS 'Database time.';
COMMENT ON COLUMN api_keys.revoked_at IS 'Time of the revocation. Null while the key is valid.';
CREATE UNIQUE INDEX api_keys_key_sha256 ON api_keys (key_sha256);

CREATE TABLE api_requests (
    api_key         text        NOT NULL,
    idempotency_key text        NOT NULL,
    content_sha256  bytea       NOT NULL,
    attempt         bytea       NOT NULL,
    answer          bytea       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_requests_pkey PRIMARY KEY (api_key, idempotency_key)
);
COMMENT ON TABLE api_requests IS 'Idempotency record of each write of the admin API that succeeded. A repeat gets the same answer and changes nothing. A row is written in the transaction of its change, and removed after a day.';
COMMENT ON COLUMN api_requests.api_key IS 'Name of the API key.';
COMMENT ON COLUMN api_requests.idempotency_key IS 'Idempotency-Key of the request.';
COMMENT ON COLUMN api_requests.content_sha256 IS 'SHA-256 of method, path and body. It distinguishes a repeat from another request.';
COMMENT ON COLUMN api_requests.attempt IS 'Random bytes. They distinguish the attempt that made the change from its repeats.';
COMMENT ON COLUMN api_requests.answer IS 'Body of the answer, encrypted with AES-256-GCM. The key is derived from the API key and not stored.';
COMMENT ON COLUMN api_requests.created_at IS 'Database time.';
CREATE INDEX api_requests_created_at ON api_requests (created_at);

CREATE TABLE master_key_check (
    id    smallint NOT NULL,
    value bytea    NOT NULL,
    CONSTRAINT master_key_check_pkey PRIMARY KEY (id),
    CONSTRAINT master_key_check_id_positive CHECK (id >= 1)
);
COMMENT ON TABLE master_key_check IS 'Shows whether a master key belongs to this database. There is one row, and one more for each former key during a rotation.';
COMMENT ON COLUMN master_key_check.id IS '1 for the key that encrypts. A higher number for a former key that some secrets may still need.';
COMMENT ON COLUMN master_key_check.value IS 'A known text, encrypted with AES-256-GCM under the key.';
