-- A fault of a sandbox app that answers a code in place of the call (contract 15.2.8).

ALTER TABLE sandbox_faults
    ADD COLUMN code integer,
    DROP CONSTRAINT sandbox_faults_fault_known,
    ADD CONSTRAINT sandbox_faults_fault_known CHECK (
        fault IN ('lost', 'unavailable', 'late', 'twice', 'never', 'old', 'refuse')),
    ADD CONSTRAINT sandbox_faults_code_of_refuse CHECK ((fault = 'refuse') = (code IS NOT NULL));
COMMENT ON COLUMN sandbox_faults.code IS 'The code that is answered in place of the call. Null for other faults than refuse.';
