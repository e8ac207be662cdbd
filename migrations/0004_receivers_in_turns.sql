-- Receivers are served in turns: whoever was served longest ago comes first.

-- Whoever reads the table for long would make all sending wait behind this statement.
SELECT set_config('lock_timeout', '5s', true);

ALTER TABLE receivers ADD COLUMN served_until timestamptz;
COMMENT ON COLUMN receivers.served_until IS 'Time when an instance has ended its lease last. Null before the first time.';
