//! The operator's log of apps and credits that were written by hand: a line for each, with the hash chain.

/// Statements that write the lines, so that the audit finds nothing.
#[must_use]
pub fn of_credits() -> String {
    "INSERT INTO operator_log
         (app_id, at, id, operator_kind, operator, action, subject, before, after, note, seq, chain_hash, salt,
          content_hash)
     SELECT app_id, at, id, 'command_line', 'bench', action, subject, before, after, '',
         head.last + row_number() OVER (ORDER BY at, subject), sha256(''), decode(repeat('07', 16), 'hex'), sha256('')
     FROM (
         SELECT app_id, at, hashtextextended(open_id, seq) AS id, 'wallet.credit' AS action, open_id AS subject,
             jsonb_build_object('free_balance', free_balance - free_change,
                 'charge_balance', charge_balance - charge_change) AS before,
             jsonb_build_object('free_balance', free_balance, 'charge_balance', charge_balance, 'ref', reference) AS after
         FROM ledger WHERE kind = 'credit'
         UNION ALL
         SELECT app_id, created_at, app_no, 'app.create', app_id, '{}', '{}' FROM apps a
         WHERE NOT EXISTS (SELECT 1 FROM operator_log l WHERE l.app_id = a.app_id AND l.action = 'app.create')
     ) AS lines, (SELECT seq AS last FROM operator_log_head) AS head;
     UPDATE operator_log SET content_hash = sha256(int4send(16) || salt
             || int4send(octet_length(subject)) || convert_to(subject, 'UTF8')
             || int4send(octet_length(before::text)) || convert_to(before::text, 'UTF8')
             || int4send(octet_length(after::text)) || convert_to(after::text, 'UTF8')
             || int4send(octet_length(note)) || convert_to(note, 'UTF8') || int4send(-1))
     WHERE operator = 'bench';
     WITH RECURSIVE chained (seq, chain_hash) AS (
         SELECT seq, chain_hash FROM operator_log_head
         UNION ALL
         -- The LIMIT makes every step one look-up in the index.
         SELECT line.seq, sha256(chained.chain_hash || line.encoded)
         FROM chained CROSS JOIN LATERAL (
             SELECT l.seq,
                 int4send(8) || int8send(l.seq)
                 || int4send(octet_length(l.app_id)) || convert_to(l.app_id, 'UTF8')
                 || int4send(8) || timestamptz_send(l.at)
                 || int4send(8) || int8send(l.id)
                 || int4send(octet_length(l.operator_kind)) || convert_to(l.operator_kind, 'UTF8')
                 || int4send(octet_length(l.operator)) || convert_to(l.operator, 'UTF8')
                 || int4send(octet_length(l.action)) || convert_to(l.action, 'UTF8')
                 || int4send(32) || l.content_hash AS encoded
             FROM operator_log l WHERE l.seq = chained.seq + 1 LIMIT 1
         ) AS line
     ), written AS (
         UPDATE operator_log SET chain_hash = chained.chain_hash FROM chained
         WHERE operator_log.seq = chained.seq AND chained.seq > (SELECT seq FROM operator_log_head)
     ), newest AS (
         SELECT seq, chain_hash FROM chained ORDER BY seq DESC LIMIT 1
     )
     UPDATE operator_log_head SET seq = newest.seq, chain_hash = newest.chain_hash FROM newest"
        .to_owned()
}
