-- Users of the console whom an OpenID Connect provider signs in (contract 8.6.20 and following).

ALTER TABLE console_users ADD COLUMN oidc_issuer text;
ALTER TABLE console_users ADD COLUMN oidc_subject text;
ALTER TABLE console_users ADD CONSTRAINT console_users_oidc_identity CHECK ((oidc_issuer IS NULL) = (oidc_subject IS NULL));
CREATE UNIQUE INDEX console_users_oidc ON console_users (oidc_issuer, oidc_subject);
COMMENT ON COLUMN console_users.oidc_issuer IS 'OpenID Connect provider that signs the user in. Null for a user with a password.';
COMMENT ON COLUMN console_users.oidc_subject IS 'Id of the user at that provider. Null for a user with a password.';
COMMENT ON COLUMN console_users.password IS 'Argon2id hash with its salt and parameters, as a PHC string. Empty for a user of an OpenID Connect provider.';
COMMENT ON COLUMN console_sessions.proved_at IS 'Database time when the user last typed the password, or proved to the OpenID Connect provider who they are.';
