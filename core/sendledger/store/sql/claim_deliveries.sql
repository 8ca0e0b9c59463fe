-- Claims at most claim_max due rows of one channel and lane, oldest first, and returns what authorising
-- and writing them needs. Locks the picked rows, skipping locked ones. Needs index delivery_claim.
-- A function, so that its plan is kept: sendledger_migrations/dispatching.py.
SELECT *
FROM sendledger.claim_deliveries(
    %(channel)s, %(lane)s::smallint, %(claim_token)s, %(claim_max)s::integer, %(lease)s,
    %(wake_from)s, %(intent_from)s::bigint, %(probing)s, %(now)s
)
