-- A freeze and its end are lines about a player: the history, the export and the erasure of the player have them.

CREATE OR REPLACE VIEW player_lines AS
SELECT seq, at, id, operator_kind, operator, action, app_id, subject, before, after, note FROM operator_log
WHERE action IN ('wallet.credit', 'wallet.debit', 'wallet.cancel', 'wallet.freeze', 'wallet.thaw')
    OR action ~ '^(login_code|change_request|player)[.]';
