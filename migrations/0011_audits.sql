-- What audits came to: when the books were last known to be right.

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
COMMENT ON TABLE audits IS 'A line for each audit that came to its end, written by the audit; never updated nor deleted.';
COMMENT ON COLUMN audits.scope IS 'full: everything was read; since: what came after a checkpoint.';
COMMENT ON COLUMN audits.started_at IS 'Database time of the snapshot: the books were seen as of then.';
COMMENT ON COLUMN audits.id IS 'Random, made by the program; tells audits of one moment apart.';
COMMENT ON COLUMN audits.finished_at IS 'Database time of the line.';
COMMENT ON COLUMN audits.entries IS 'Ledger entries that were checked.';
COMMENT ON COLUMN audits.differences IS 'What was found; 0 is clean.';
COMMENT ON COLUMN audits.program_version IS 'Version of the program that audited.';
