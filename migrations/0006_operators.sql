-- What operators do, and which master keys the database uses.

CREATE TABLE operator_log (
    app_id        text        NOT NULL,
    at            timestamptz NOT NULL,
    id            bigint      NOT NULL,
    operator_kind text        NOT NULL,
    operator      text        NOT NULL,
    action        text        NOT NULL,
    subject       text        NOT NULL,
    before        jsonb,
    after         jsonb,
    note          text        NOT NULL,
    CONSTRAINT operator_log_pkey PRIMARY KEY (app_id, at, id),
    CONSTRAINT operator_log_operator_named CHECK (operator <> '')
);
CREATE INDEX operator_log_at ON operator_log (at, id);
COMMENT ON TABLE operator_log IS 'A line for each change that an operator made, written in the transaction of the change; never updated nor deleted.';
COMMENT ON COLUMN operator_log.app_id IS 'The app that was changed; empty for what concerns all apps.';
COMMENT ON COLUMN operator_log.at IS 'Database time of the line.';
COMMENT ON COLUMN operator_log.id IS 'Random, made by the program; tells lines of one moment apart.';
COMMENT ON COLUMN operator_log.operator_kind IS 'By which way: command_line, console or api_key.';
COMMENT ON COLUMN operator_log.operator IS 'Who.';
COMMENT ON COLUMN operator_log.action IS 'What was done, such as app.suspend.';
COMMENT ON COLUMN operator_log.subject IS 'To what: an app, a player, a version, a picture; never a secret.';
COMMENT ON COLUMN operator_log.before IS 'What was changed, as it stood before; null where there was nothing.';
COMMENT ON COLUMN operator_log.after IS 'The same after it; null where nothing is left.';
COMMENT ON COLUMN operator_log.note IS 'The operator''s reason; may be empty.';

ALTER TABLE master_key_check DROP CONSTRAINT master_key_check_single;
ALTER TABLE master_key_check ADD CONSTRAINT master_key_check_id_positive CHECK (id >= 1);
COMMENT ON TABLE master_key_check IS 'Tells whether a master key is one this database was encrypted with. One row, and one more for each former key while a rotation is under way.';
COMMENT ON COLUMN master_key_check.id IS '1 for the key that encrypts, more for keys that some secrets may still be under.';
