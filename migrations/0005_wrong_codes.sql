-- Wrong codes of a second factor are counted by user, because whoever types them knows the password.

-- Whoever reads the table for long would make all sign-ins wait behind this statement.
SELECT set_config('lock_timeout', '5s', true);

ALTER TABLE console_users ADD COLUMN wrong_codes integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN console_users.wrong_codes IS 'Codes of the second factor since the last right one, each counted before it is verified. From 20 on only recovery codes count.';
