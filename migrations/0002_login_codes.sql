-- Logins of players (contract 11).

ALTER TABLE apps ADD COLUMN logins_per_second integer;
ALTER TABLE apps ADD CONSTRAINT apps_logins_per_second_not_negative CHECK (logins_per_second >= 0);
COMMENT ON COLUMN apps.logins_per_second IS 'Limit of this app (contract 7.2). Null takes the setting; 0 is no limit.';

COMMENT ON COLUMN apps.sandbox IS 'True for a sandbox app, which gets a diagnosis of a wrong signature (contract 3.7) and takes codes of sandbox players (contract 11.4).';

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
