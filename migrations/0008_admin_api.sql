-- Who may use the admin API, and what its writes were answered.

CREATE TABLE api_keys (
    name         text        NOT NULL,
    role         text        NOT NULL,
    key_sha256   bytea       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    last_used_on timestamptz,
    revoked_at   timestamptz,
    CONSTRAINT api_keys_pkey PRIMARY KEY (name),
    CONSTRAINT api_keys_role_known CHECK (role IN ('viewer', 'admin'))
);
CREATE UNIQUE INDEX api_keys_key_sha256 ON api_keys (key_sha256);
COMMENT ON TABLE api_keys IS 'Keys of the admin API by their hash; the key itself is stored nowhere. A row is never deleted, so that a name in the operator''s log means one key for ever.';
COMMENT ON COLUMN api_keys.name IS 'The name that the operator''s log has.';
COMMENT ON COLUMN api_keys.role IS 'viewer (may only read) or admin.';
COMMENT ON COLUMN api_keys.key_sha256 IS 'SHA-256 of the key''s text.';
COMMENT ON COLUMN api_keys.created_at IS 'Database time.';
COMMENT ON COLUMN api_keys.last_used_on IS 'The day of its last use, at midnight UTC; null before the first.';
COMMENT ON COLUMN api_keys.revoked_at IS 'Since when it is refused; null while it is valid.';

CREATE TABLE api_requests (
    api_key         text        NOT NULL,
    idempotency_key text        NOT NULL,
    content_sha256  bytea       NOT NULL,
    attempt         bytea       NOT NULL,
    answer          bytea       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT api_requests_pkey PRIMARY KEY (api_key, idempotency_key)
);
CREATE INDEX api_requests_created_at ON api_requests (created_at);
COMMENT ON TABLE api_requests IS 'Writes of the admin API that succeeded, so that a repeat is answered alike and changes nothing. A row is written in the transaction of its change and removed after a day.';
COMMENT ON COLUMN api_requests.api_key IS 'Name of the API key that asked.';
COMMENT ON COLUMN api_requests.idempotency_key IS 'What the caller named the request.';
COMMENT ON COLUMN api_requests.content_sha256 IS 'SHA-256 of method, path and body, to tell a repeat from another request.';
COMMENT ON COLUMN api_requests.attempt IS 'Random; tells the try that made the change from its repeats.';
COMMENT ON COLUMN api_requests.answer IS 'The answer''s body, AES-256-GCM under a key derived from the API key, which is stored nowhere.';
COMMENT ON COLUMN api_requests.created_at IS 'Database time.';
