"""What intents and the rows that hang on them refer to, for the revision that makes them."""

PARENTS = """
-- What planning adds by the million refers to its parents by these triggers, once for all rows of a
-- statement: as foreign keys, which look up and lock a row's parent row by row, they cost as much as the
-- rows. They promise the same, because no parent ever goes away or changes: it is append-only.
CREATE FUNCTION sendledger.require_batch() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (
        SELECT FROM (SELECT DISTINCT n.batch_id FROM added AS n) AS a
        WHERE (SELECT true FROM sendledger.batch AS b WHERE b.batch_id = a.batch_id) IS NULL
    ) THEN
        RAISE EXCEPTION 'sendledger.%: % refused, its batch does not exist', TG_TABLE_NAME, TG_OP
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME;
    END IF;
    RETURN NULL;
END
$body$;

-- Ids that planning gave out have no gaps and are counted; others are looked up one by one.
-- A session keeps the plan that it made for an almost empty table: it must never be to read all of it.
CREATE FUNCTION sendledger.require_intent() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off AS $body$
DECLARE
    added_count bigint;
    first_id bigint;
    last_id bigint;
BEGIN
    SELECT count(*), min(a.intent_id), max(a.intent_id) INTO added_count, first_id, last_id
    FROM added AS a;
    -- No id is there twice, it is a primary key.
    IF last_id - first_id = added_count - 1 AND added_count = (
        SELECT count(*) FROM sendledger.intent AS i WHERE i.intent_id BETWEEN first_id AND last_id
    ) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (
        SELECT FROM added AS a
        WHERE (SELECT true FROM sendledger.intent AS i WHERE i.intent_id = a.intent_id) IS NULL
    ) THEN
        RAISE EXCEPTION 'sendledger.%: % refused, its intent does not exist', TG_TABLE_NAME, TG_OP
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME;
    END IF;
    RETURN NULL;
END
$body$;

-- A key over intent and provenance would be an index more on each intent planned.
CREATE FUNCTION sendledger.require_native_intent() RETURNS trigger LANGUAGE plpgsql
SET enable_seqscan = off AS $body$
BEGIN
    IF EXISTS (
        SELECT FROM added AS a
        WHERE (
            SELECT i.provenance = 'native' FROM sendledger.intent AS i
            WHERE i.intent_id = a.intent_id
        ) IS NOT TRUE
    ) THEN
        RAISE EXCEPTION 'sendledger.%: % refused, it has no intent of our own', TG_TABLE_NAME, TG_OP
            USING ERRCODE = 'foreign_key_violation', CONSTRAINT = TG_NAME;
    END IF;
    RETURN NULL;
END
$body$;

CREATE TRIGGER intent_batch_exists AFTER INSERT ON sendledger.intent
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sendledger.require_batch();
CREATE TRIGGER recipient_secret_intent_exists AFTER INSERT ON sendledger.recipient_secret
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sendledger.require_intent();
CREATE TRIGGER delivery_intent_exists AFTER INSERT ON sendledger.delivery
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sendledger.require_intent();
CREATE TRIGGER attempt_intent_is_native AFTER INSERT ON sendledger.attempt
REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION sendledger.require_native_intent();

CREATE TRIGGER intent_is_final BEFORE UPDATE OF intent_id ON sendledger.recipient_secret
FOR EACH STATEMENT EXECUTE FUNCTION sendledger.refuse_change('intents of rows');
CREATE TRIGGER intent_is_final BEFORE UPDATE OF intent_id ON sendledger.delivery
FOR EACH STATEMENT EXECUTE FUNCTION sendledger.refuse_change('intents of rows');
"""
