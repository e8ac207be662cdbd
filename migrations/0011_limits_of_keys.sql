-- An API key may have a limit of its own for what it moves without a second person.

ALTER TABLE api_keys
    ADD COLUMN second_person_above bigint,
    ADD CONSTRAINT api_keys_limit_positive CHECK (second_person_above >= 1);
COMMENT ON COLUMN api_keys.second_person_above IS 'How many coins it moves in 24 hours alone, apart from its maker (contract 8.6.40). Null: the setting of the same name, together with its maker.';
ALTER TABLE console_requests ADD COLUMN second_person_above bigint;
COMMENT ON COLUMN console_requests.second_person_above IS 'Limit of a new API key. Null for other kinds, and for a key without one of its own.';
