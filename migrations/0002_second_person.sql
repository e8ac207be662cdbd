-- Lines of the operator's log tell the state of their subject, which the audit compares with the tables. Changes of users
-- and API keys wait for a second person too.
ALTER TABLE operator_log ADD COLUMN state jsonb;
COMMENT ON COLUMN operator_log.state IS 'State of the subject after the change, where the audit compares it: a user, an API key, an app, a receiver or a request. Secrets are digests. Null for other lines, for a subject that is gone, and in lines of former versions.';
COMMENT ON COLUMN operator_log.content_hash IS 'SHA-256 of the salt and of the texts that the line was written with: subject, before, after, note and credits, and state where there is one. chain_hash covers it in their place.';
-- Who made which account and key (contract 8.6.45).
CREATE INDEX operator_log_accounts ON operator_log (action, at)
    WHERE action IN ('api_key.create', 'console_user.add', 'console_user.set_role', 'console_user.reset_second_factor');
-- What somebody has moved in the last day (contract 8.6.40).
CREATE INDEX operator_log_moves ON operator_log (operator_kind, operator, at)
    WHERE action IN ('wallet.credit', 'wallet.credits', 'wallet.debit', 'wallet.cancel');

ALTER TABLE console_requests
    ADD COLUMN account text,
    ADD COLUMN role    text,
    ADD COLUMN apps    text[],
    ADD COLUMN secret  text,
    DROP CONSTRAINT console_requests_kind_known,
    ADD CONSTRAINT console_requests_kind_known CHECK (kind IN (
        'credit', 'debit', 'cancel', 'add_user', 'set_rights', 'reset_second_factor', 'create_key')),
    ADD CONSTRAINT console_requests_account_named CHECK (
        (kind IN ('credit', 'debit', 'cancel')) = (account IS NULL) AND (app_id = '') = (account IS NOT NULL)),
    ADD CONSTRAINT console_requests_rights_told CHECK (
        (kind IN ('add_user', 'set_rights', 'create_key')) = (role IS NOT NULL)
        AND (role IS NULL) = (apps IS NULL)),
    ADD CONSTRAINT console_requests_role_known CHECK (
        role IN ('viewer', 'support', 'finance', 'developer', 'admin'));
COMMENT ON TABLE console_requests IS 'Large changes of wallets, and changes of users and API keys, that one user of the console asked for and an admin confirms or refuses, who is somebody else (contract 8.6.40 and 8.6.44). A request that waits for 7 days has ended. A row is never deleted, so a ref is asked for once.';
COMMENT ON COLUMN console_requests.app_id IS 'The app. Empty for a change of a user or an API key.';
COMMENT ON COLUMN console_requests.kind IS 'credit, debit or cancel, as in the ledger; or add_user, set_rights, reset_second_factor, or create_key.';
COMMENT ON COLUMN console_requests.open_id IS 'The player. Empty for a change of a user or an API key.';
COMMENT ON COLUMN console_requests.account IS 'Name of the user or the API key. Null for a change of a wallet.';
COMMENT ON COLUMN console_requests.role IS 'Role of the user or the key after the change. Null for other kinds.';
COMMENT ON COLUMN console_requests.apps IS 'Ids of its apps then, in order. Empty: all apps.';
COMMENT ON COLUMN console_requests.secret IS 'While the request waits: Argon2id hash of the password of a new user, as a PHC string, or SHA-256 of a new key in hexadecimal.';
CREATE INDEX console_requests_account ON console_requests (account) WHERE account IS NOT NULL AND state = 'waiting';
