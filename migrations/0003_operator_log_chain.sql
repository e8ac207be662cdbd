-- The hash chain of the operator's log (contract 8.5 and 9.8).

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

ALTER TABLE operator_log ADD COLUMN seq bigint;
ALTER TABLE operator_log ADD COLUMN chain_hash bytea;
COMMENT ON COLUMN operator_log.seq IS 'Sequence number of the line, from 1.';
COMMENT ON COLUMN operator_log.chain_hash IS 'SHA-256 of the line and of the hash of the line before it.';
COMMENT ON COLUMN operator_log.id IS 'Random number from the program. It distinguishes lines of the same time on a page.';

-- Lines from before this migration are chained in the order of their time.
UPDATE operator_log SET seq = numbered.seq
FROM (SELECT app_id, at, id, row_number() OVER (ORDER BY at, id, app_id) AS seq FROM operator_log) AS numbered
WHERE operator_log.app_id = numbered.app_id AND operator_log.at = numbered.at AND operator_log.id = numbered.id;
CREATE UNIQUE INDEX operator_log_seq ON operator_log (seq);
WITH RECURSIVE chained (seq, chain_hash) AS (
    SELECT 0::bigint, decode(repeat('00', 32), 'hex')
    UNION ALL
    -- The LIMIT makes every step one look-up in the index.
    SELECT line.seq, sha256(chained.chain_hash || line.encoded)
    FROM chained CROSS JOIN LATERAL (
        SELECT l.seq,
            int4send(8) || int8send(l.seq)
            || int4send(octet_length(l.app_id)) || convert_to(l.app_id, 'UTF8')
            || int4send(8) || timestamptz_send(l.at)
            || int4send(8) || int8send(l.id)
            || int4send(octet_length(l.operator_kind)) || convert_to(l.operator_kind, 'UTF8')
            || int4send(octet_length(l.operator)) || convert_to(l.operator, 'UTF8')
            || int4send(octet_length(l.action)) || convert_to(l.action, 'UTF8')
            || int4send(octet_length(l.subject)) || convert_to(l.subject, 'UTF8')
            || int4send(coalesce(octet_length(l.before::text), -1)) || convert_to(coalesce(l.before::text, ''), 'UTF8')
            || int4send(coalesce(octet_length(l.after::text), -1)) || convert_to(coalesce(l.after::text, ''), 'UTF8')
            || int4send(octet_length(l.note)) || convert_to(l.note, 'UTF8') AS encoded
        FROM operator_log l WHERE l.seq = chained.seq + 1 LIMIT 1
    ) AS line
), written AS (
    UPDATE operator_log SET chain_hash = chained.chain_hash FROM chained WHERE operator_log.seq = chained.seq
)
INSERT INTO operator_log_head (id, seq, chain_hash)
SELECT 1, seq, chain_hash FROM chained ORDER BY seq DESC LIMIT 1;

ALTER TABLE operator_log ALTER COLUMN seq SET NOT NULL;
ALTER TABLE operator_log ALTER COLUMN chain_hash SET NOT NULL;
ALTER TABLE operator_log ADD CONSTRAINT operator_log_chain_hash_length CHECK (octet_length(chain_hash) = 32);
