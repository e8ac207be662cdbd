-- What was asked for when a change was refused, and periods that an operator has closed.

-- Whoever reads the table for long would make the writers of traces wait behind this statement.
SELECT set_config('lock_timeout', '5s', true);

ALTER TABLE exchange_refusals
    ADD COLUMN amount bigint,
    ADD COLUMN product_name text,
    ADD COLUMN free_balance bigint,
    ADD COLUMN charge_balance bigint;
COMMENT ON COLUMN exchange_refusals.amount IS 'Amount that was asked for the last time. NULL where none came that can be one.';
COMMENT ON COLUMN exchange_refusals.product_name IS 'Product of the last time. NULL for a present or a cancel, and where none came that can be one.';
COMMENT ON COLUMN exchange_refusals.free_balance IS 'Gifted purse at the last time. NULL where the refusal came before the till looked at the wallet.';
COMMENT ON COLUMN exchange_refusals.charge_balance IS 'Charged purse at the last time. NULL with free_balance.';

CREATE TABLE closed_periods (
    app_id        text        NOT NULL,
    period        text        NOT NULL,
    time_zone     text        NOT NULL,
    since         timestamptz NOT NULL,
    until         timestamptz NOT NULL,
    sha256        text        NOT NULL,
    operator_kind text        NOT NULL,
    operator      text        NOT NULL,
    closed_at     timestamptz NOT NULL DEFAULT now(),
    checked_at    timestamptz NOT NULL DEFAULT now(),
    found_sha256  text        NOT NULL,
    CONSTRAINT closed_periods_pkey PRIMARY KEY (app_id, period, time_zone)
);
COMMENT ON TABLE closed_periods IS 'Days and months that an operator has closed (contract 13.3). A row is never deleted, and only a check updates it.';
COMMENT ON COLUMN closed_periods.app_id IS 'The app.';
COMMENT ON COLUMN closed_periods.period IS 'The day, such as 2026-10-31, or the month, such as 2026-10.';
COMMENT ON COLUMN closed_periods.time_zone IS 'IANA name of the time zone that gives the period its limits.';
COMMENT ON COLUMN closed_periods.since IS 'First moment of the period.';
COMMENT ON COLUMN closed_periods.until IS 'First moment after it.';
COMMENT ON COLUMN closed_periods.sha256 IS 'SHA-256 of the statement when it was closed, in hexadecimal.';
COMMENT ON COLUMN closed_periods.operator_kind IS 'How the operator closed it: command_line, console or api_key.';
COMMENT ON COLUMN closed_periods.operator IS 'Name of the operator who closed it.';
COMMENT ON COLUMN closed_periods.closed_at IS 'Database time when it was closed.';
COMMENT ON COLUMN closed_periods.checked_at IS 'Database time when its statement was last made again.';
COMMENT ON COLUMN closed_periods.found_sha256 IS 'SHA-256 of the statement then. It is sha256 unless the books were changed.';
-- What is to be checked next.
CREATE INDEX closed_periods_checked ON closed_periods (checked_at);
