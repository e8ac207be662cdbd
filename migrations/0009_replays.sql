-- How often an exchange was replayed, and players by the beginning of their open_id.
--
-- The index is there for operators who look a player up; no column of it ever changes, so that
-- updates of balances stay off it. While it is built, changes of wallets wait, the longer the more
-- players there are. With millions of them, make it beforehand while the servers run, and this finds
-- it there:
--   CREATE INDEX CONCURRENTLY wallets_open_id ON wallets (app_id, open_id COLLATE "C");
-- Its collation is that of the bytes: only there is a beginning one range, whatever the database's own.
CREATE INDEX IF NOT EXISTS wallets_open_id ON wallets (app_id, open_id COLLATE "C");

CREATE TABLE exchange_replays (
    app_id   text        NOT NULL,
    biz_no   text        NOT NULL,
    replays  bigint      NOT NULL,
    first_at timestamptz NOT NULL,
    last_at  timestamptz NOT NULL,
    CONSTRAINT exchange_replays_pkey PRIMARY KEY (app_id, biz_no),
    CONSTRAINT exchange_replays_positive CHECK (replays >= 1)
) WITH (fillfactor = 70);
COMMENT ON TABLE exchange_replays IS 'How often the answer of an exchange was given again. Best effort: counted in memory and written once a second, so what a process had not written when it died is missing, as is what came while the database was away. Rows are removed 30 days after their last replay.';
COMMENT ON COLUMN exchange_replays.app_id IS 'The app.';
COMMENT ON COLUMN exchange_replays.biz_no IS 'The number that was sent again with the same content.';
COMMENT ON COLUMN exchange_replays.replays IS 'How often; the first success is not counted.';
COMMENT ON COLUMN exchange_replays.first_at IS 'When the first replay was written, database time: at most a second or so after it.';
COMMENT ON COLUMN exchange_replays.last_at IS 'The same of the last one.';
