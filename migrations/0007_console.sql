-- Who may use the operator's console, and their sessions.

CREATE TABLE console_users (
    name            text        NOT NULL,
    role            text        NOT NULL,
    password        text        NOT NULL,
    failed_attempts integer     NOT NULL DEFAULT 0,
    locked_until    timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT console_users_pkey PRIMARY KEY (name),
    CONSTRAINT console_users_role_known CHECK (role IN ('viewer', 'admin'))
);
COMMENT ON TABLE console_users IS 'Who may sign in to the operator''s console.';
COMMENT ON COLUMN console_users.name IS 'The name they sign in with, as the operator''s log has it.';
COMMENT ON COLUMN console_users.role IS 'viewer (sees everything, changes nothing) or admin.';
COMMENT ON COLUMN console_users.password IS 'Argon2id hash with its salt and parameters, as a PHC string.';
COMMENT ON COLUMN console_users.failed_attempts IS 'Attempts to sign in since the last that succeeded; an attempt is counted before its password is looked at.';
COMMENT ON COLUMN console_users.locked_until IS 'Until then no attempt is taken, whatever its password. Database time.';
COMMENT ON COLUMN console_users.created_at IS 'Database time.';

CREATE TABLE console_sessions (
    token_sha256 bytea       NOT NULL,
    name         text        NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    used_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT console_sessions_pkey PRIMARY KEY (token_sha256)
);
CREATE INDEX console_sessions_name ON console_sessions (name);
COMMENT ON TABLE console_sessions IS 'Sessions of the console. One ends 12 hours after it began, 30 minutes after it was last used, at sign-out, and when its user changes.';
COMMENT ON COLUMN console_sessions.token_sha256 IS 'SHA-256 of the 256 random bits that the browser holds.';
COMMENT ON COLUMN console_sessions.name IS 'Whose.';
COMMENT ON COLUMN console_sessions.created_at IS 'Database time.';
COMMENT ON COLUMN console_sessions.used_at IS 'Database time of the last request, to the minute.';
