-- How often keys are used, and the app secret before the present one (contract 8.2).

CREATE TABLE key_uses (
    app_id       text        NOT NULL,
    kind         text        NOT NULL,
    key          text        NOT NULL,
    hour         timestamptz NOT NULL,
    uses         bigint      NOT NULL,
    last_used_at timestamptz NOT NULL,
    CONSTRAINT key_uses_pkey PRIMARY KEY (app_id, kind, key, hour),
    CONSTRAINT key_uses_kind_known CHECK (kind IN ('pay_key', 'app_secret', 'api_key')),
    CONSTRAINT key_uses_not_negative CHECK (uses >= 0)
) WITH (fillfactor = 70);
COMMENT ON TABLE key_uses IS 'How often each key has proven who calls, by the hour. A process counts in memory and adds its counts every half minute. Counts that it has not written are lost when it is killed. A row is removed after 25 hours, but for the newest of each key.';
COMMENT ON COLUMN key_uses.app_id IS 'The app. Empty for an API key.';
COMMENT ON COLUMN key_uses.kind IS 'pay_key, app_secret or api_key.';
COMMENT ON COLUMN key_uses.key IS 'Generation of a pay key or an app secret; name of an API key.';
COMMENT ON COLUMN key_uses.hour IS 'Beginning of the hour (UTC) in which the uses were written.';
COMMENT ON COLUMN key_uses.uses IS 'Number of uses. An API key from before this table may have 0.';
COMMENT ON COLUMN key_uses.last_used_at IS 'Database time when the last of these uses was written.';

INSERT INTO key_uses (app_id, kind, key, hour, uses, last_used_at)
SELECT '', 'api_key', name, date_trunc('hour', last_used_on), 0, last_used_on FROM api_keys
WHERE last_used_on IS NOT NULL;
ALTER TABLE api_keys DROP COLUMN last_used_on;

ALTER TABLE apps ADD COLUMN secret_generation integer NOT NULL DEFAULT 1;
ALTER TABLE apps ADD COLUMN secret_created_at timestamptz NOT NULL DEFAULT now();
ALTER TABLE apps ADD COLUMN former_secret bytea;
ALTER TABLE apps ADD COLUMN former_secret_created_at timestamptz;
ALTER TABLE apps ADD CONSTRAINT apps_former_secret_dated CHECK (
    (former_secret IS NULL) = (former_secret_created_at IS NULL));
COMMENT ON COLUMN apps.secret_generation IS '1 for the first app secret. Each rotation adds one.';
COMMENT ON COLUMN apps.secret_created_at IS 'Time when the app secret was made.';
COMMENT ON COLUMN apps.former_secret IS 'App secret before the present one, which is still valid. Encrypted as app_secret. Null before the first rotation.';
COMMENT ON COLUMN apps.former_secret_created_at IS 'Time when that app secret was made.';
UPDATE apps SET secret_created_at = coalesce(
    (SELECT max(at) FROM operator_log AS line WHERE line.app_id = apps.app_id AND action = 'app.rotate_secret'),
    created_at);

ALTER TABLE console_users DROP COLUMN failed_attempts;
ALTER TABLE console_users DROP COLUMN locked_until;
