-- Who closed the books of a month, when, and what its statement was.

CREATE TABLE closed_periods (
    app_id      text        NOT NULL,
    month       text        NOT NULL,
    time_zone   text        NOT NULL,
    sha256      bytea       NOT NULL,
    statement   text        NOT NULL,
    closed_by_kind text     NOT NULL,
    closed_by   text        NOT NULL,
    closed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    compared_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    differs     boolean     NOT NULL DEFAULT false,
    CONSTRAINT closed_periods_pkey PRIMARY KEY (app_id, month),
    CONSTRAINT closed_periods_sha256_length CHECK (octet_length(sha256) = 32)
);
COMMENT ON TABLE closed_periods IS 'Months whose books an operator closed (contract 13.3.9). The first close stands: only compared_at and differs of a row change, and no row is deleted.';
COMMENT ON COLUMN closed_periods.app_id IS 'The app.';
COMMENT ON COLUMN closed_periods.month IS 'The month, such as 2026-10.';
COMMENT ON COLUMN closed_periods.time_zone IS 'IANA name of the time zone that gives the month its limits.';
COMMENT ON COLUMN closed_periods.sha256 IS 'SHA-256 of the statement before its last line, as the statement tells it.';
COMMENT ON COLUMN closed_periods.statement IS 'The statement as text, with its last line.';
COMMENT ON COLUMN closed_periods.closed_by_kind IS 'command_line, console or api_key: where it was closed.';
COMMENT ON COLUMN closed_periods.closed_by IS 'Name of the operator who closed it.';
COMMENT ON COLUMN closed_periods.closed_at IS 'When it was closed.';
COMMENT ON COLUMN closed_periods.compared_at IS 'When a server last began to compare the statement with one of that moment. At first the time of the close.';
COMMENT ON COLUMN closed_periods.differs IS 'Whether that comparison found another statement.';

-- The job asks which was not compared for the longest time, and the first page which differ.
CREATE INDEX closed_periods_compared ON closed_periods (compared_at);
CREATE INDEX closed_periods_differing ON closed_periods (month DESC, app_id) WHERE differs;
