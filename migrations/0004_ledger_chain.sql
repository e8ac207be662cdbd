-- A hash chain over each wallet's ledger entries: a changed entry shows even where all sums still
-- fit. ARCHITECTURE.md tells how; src/domain/ledger.rs is the encoding.
--
-- Entries that are there already are not touched. Their hashes are computed here once, and only
-- the last one of each wallet is kept, with the wallet. All entries are read before anything is
-- locked. Whatever an older program writes meanwhile or later has no hash and leaves chain_length
-- behind entry_count; the next exchange or credit of that wallet makes up for it.

CREATE FUNCTION pg_temp.chain_step(bytea, bytea) RETURNS bytea
    LANGUAGE sql IMMUTABLE STRICT AS 'SELECT sha256($1 || $2)';
CREATE AGGREGATE pg_temp.chain(bytea) (
    SFUNC = pg_temp.chain_step,
    STYPE = bytea,
    INITCOND = '\x0000000000000000000000000000000000000000000000000000000000000000'
);
CREATE TEMPORARY TABLE chained AS
SELECT app_id, open_id, max(seq) AS chain_length, pg_temp.chain(
        int4send(octet_length(app_id)) || convert_to(app_id, 'UTF8')
        || int4send(octet_length(open_id)) || convert_to(open_id, 'UTF8')
        || int4send(8) || int8send(seq)
        || int4send(octet_length(kind)) || convert_to(kind, 'UTF8')
        || int4send(octet_length(reference)) || convert_to(reference, 'UTF8')
        || int4send(8) || int8send(free_change)
        || int4send(8) || int8send(charge_change)
        || int4send(8) || int8send(free_balance)
        || int4send(8) || int8send(charge_balance)
        || int4send(8) || timestamptz_send(at)
        ORDER BY seq) AS chain_hash
FROM ledger_entries
GROUP BY app_id, open_id;

-- NOT VALID: no row that is there has a hash, so there is nothing to read for it.
ALTER TABLE ledger_entries ADD COLUMN chain_hash bytea;
ALTER TABLE ledger_entries
    ADD CONSTRAINT ledger_entries_chain_hash_length CHECK (octet_length(chain_hash) = 32) NOT VALID;
ALTER TABLE wallets
    ADD COLUMN chain_length bigint NOT NULL DEFAULT 0,
    ADD COLUMN chain_hash   bytea  NOT NULL
        DEFAULT '\x0000000000000000000000000000000000000000000000000000000000000000';
UPDATE wallets w SET chain_length = c.chain_length, chain_hash = c.chain_hash
FROM chained c WHERE w.app_id = c.app_id AND w.open_id = c.open_id;

DROP TABLE chained;
DROP AGGREGATE pg_temp.chain(bytea);
DROP FUNCTION pg_temp.chain_step(bytea, bytea);

COMMENT ON COLUMN ledger_entries.at IS 'Database time of the statement that read the wallet for this change; the same moment as created_at of its record.';
COMMENT ON COLUMN ledger_entries.chain_hash IS 'SHA-256 over the hash of the entry before and over this entry. Null in entries of programs that knew no hashes: the next hash of the wallet covers them all the same.';
COMMENT ON COLUMN wallets.chain_length IS 'How many entries chain_hash covers; less than entry_count after an older program has written.';
COMMENT ON COLUMN wallets.chain_hash IS 'Hash of entry chain_length; 32 zero bytes before the first.';
COMMENT ON COLUMN exchanges.created_at IS 'First success, database time, as in its ledger entry; replays are answered for 48 hours from here.';
COMMENT ON COLUMN credits.created_at IS 'Database time of the credit, as in its ledger entry.';
