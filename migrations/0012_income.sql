-- What ever came into a wallet, for the totals of a balance (contract 10.6).

-- Exchanges, cancels and closed numbers have no entry here, so an exchange writes nothing more.
CREATE INDEX ledger_entries_income ON ledger_entries (app_no, wallet_no, seq)
    INCLUDE (at, free_change, charge_change) WHERE kind NOT IN ('exchange', 'cancel', 'closed');
CREATE INDEX archived_entries_income ON archived_entries (app_no, wallet_no, seq)
    INCLUDE (at, free_change, charge_change) WHERE kind NOT IN ('exchange', 'cancel', 'closed');
