-- Accounts of the console (contract 8.6).

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

COMMENT ON COLUMN console_users.failed_attempts IS 'Not used any more: see console_attempts.';
COMMENT ON COLUMN console_users.locked_until IS 'Not used any more: see console_attempts.';

ALTER TABLE console_sessions ADD COLUMN address text NOT NULL DEFAULT '';
COMMENT ON COLUMN console_sessions.address IS 'Address of the browser at the sign-in, as in console_attempts.';
ALTER TABLE console_sessions ADD COLUMN proved_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN console_sessions.proved_at IS 'Database time when the user last typed the password.';

ALTER TABLE console_users ADD COLUMN totp_secret bytea;
ALTER TABLE console_users ADD COLUMN totp_step bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN console_users.totp_secret IS 'Secret of the second factor in base32, encrypted with the master key. Null without a second factor.';
COMMENT ON COLUMN console_users.totp_step IS 'Step of the last code that was used: Unix time in units of 30 seconds. A code of this step or an earlier one is refused.';

CREATE TABLE console_recovery_codes (
    name        text  NOT NULL,
    code_sha256 bytea NOT NULL,
    CONSTRAINT console_recovery_codes_pkey PRIMARY KEY (name, code_sha256)
);
COMMENT ON TABLE console_recovery_codes IS 'Codes that take the place of the second factor. The use of a code removes its row.';
COMMENT ON COLUMN console_recovery_codes.name IS 'The user.';
COMMENT ON COLUMN console_recovery_codes.code_sha256 IS 'SHA-256 of the code, which has 80 random bits.';
