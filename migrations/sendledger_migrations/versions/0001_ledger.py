"""The ledger: intents, attempts, observations, their side rows, the delivery queue, scopes and tasks.

What the database itself refuses: an attempt without its decision, with a gap, or on a shadow or
imported intent; a change to any ledger row; a terminal status that moves; two intents with one key.
"""

from alembic import op

from sendledger_migrations.dispatching import DISPATCHING
from sendledger_migrations.parents import PARENTS

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

INSTALLATION = """
CREATE SCHEMA sendledger;

CREATE TABLE sendledger.installation (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    installation_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE sendledger.policy_revision (
    revision text PRIMARY KEY,
    document json NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now()
);
"""

INTENTS = """
CREATE TABLE sendledger.content (
    content_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    template_revision bytea NOT NULL UNIQUE CHECK (octet_length(template_revision) = 32),
    parts json NOT NULL,
    settings json NOT NULL,
    authored json NOT NULL DEFAULT '{}' -- what was written in place of parts that were made of it
);

CREATE TABLE sendledger.batch (
    batch_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    content_id bigint NOT NULL REFERENCES sendledger.content (content_id),
    planned_at timestamptz NOT NULL DEFAULT now(),
    authorized_at timestamptz NOT NULL,
    lane smallint NOT NULL CHECK (lane IN (0, 1)),
    report text NOT NULL CHECK (report <> ''),
    channel text NOT NULL CHECK (channel <> ''),
    content_revision text NOT NULL CHECK (content_revision <> ''),
    purpose text NOT NULL CHECK (purpose <> ''),
    authorization_id text NOT NULL CHECK (authorization_id <> ''),
    authorized_by text NOT NULL CHECK (authorized_by <> ''),
    scope_keys text [] NOT NULL CHECK (cardinality(scope_keys) > 0),
    UNIQUE (report, channel, content_revision)
);

CREATE TABLE sendledger.intent (
    intent_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    batch_id bigint NOT NULL,
    planned_at timestamptz NOT NULL DEFAULT now(),
    eligible_at timestamptz NOT NULL,
    not_after timestamptz,
    correction smallint NOT NULL DEFAULT 0 CHECK (correction >= 0),
    provenance text NOT NULL DEFAULT 'native'
        CHECK (provenance IN ('native', 'shadow', 'imported')),
    intent_key bytea NOT NULL UNIQUE CHECK (octet_length(intent_key) = 16),
    recipient_fingerprint bytea NOT NULL CHECK (octet_length(recipient_fingerprint) = 16),
    destination_fingerprint bytea NOT NULL CHECK (octet_length(destination_fingerprint) = 16),
    content_digest bytea NOT NULL CHECK (octet_length(content_digest) = 16),
    domain_key bytea CHECK (octet_length(domain_key) = 8),
    attachments json,
    CHECK (not_after > eligible_at)
);

-- erasable: everything readable about a person
CREATE TABLE sendledger.recipient_secret (
    intent_id bigint PRIMARY KEY,
    recipient_id text NOT NULL,
    destination text NOT NULL,
    variables json NOT NULL,
    attachments json
);
"""

LEDGER = """
CREATE TABLE sendledger.observation (
    intent_id bigint NOT NULL REFERENCES sendledger.intent (intent_id),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    occurred_at timestamptz,
    due_at timestamptz,
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    seq integer NOT NULL CHECK (seq > 0),
    attempt smallint CHECK (attempt >= 0),
    authorises smallint CHECK (authorises > 1),
    reply_code integer,
    later boolean NOT NULL DEFAULT false,
    spent boolean NOT NULL DEFAULT true,
    opt_out boolean NOT NULL DEFAULT false,
    source text NOT NULL CHECK (source IN (
        'channel', 'receipt', 'look-up', 'feed', 'lease', 'policy', 'operator', 'import')),
    outcome text CHECK (outcome IN ('accepted', 'transient', 'permanent', 'ambiguous', 'delivered')),
    scope text CHECK (scope IN ('recipient', 'message', 'sender', 'channel')),
    ruling text CHECK (ruling IN ('retry', 'wait', 'hold', 'release', 'ask', 'close',
        'suppress', 'expire', 'exhaust', 'fault', 'stop', 'erase')),
    rule text NOT NULL CHECK (rule <> ''),
    identity text NOT NULL CHECK (identity <> ''),
    cause text,
    stage text,
    enhanced_code text,
    provider_reference text,
    policy_revision text NOT NULL,
    actor text,
    seal bytea NOT NULL CHECK (octet_length(seal) = 8),
    PRIMARY KEY (intent_id, seq),
    UNIQUE (intent_id, seq, authorises),
    UNIQUE (intent_id, source, identity),
    CHECK (num_nonnulls(outcome, ruling) <= 1),
    CHECK ((scope IS NOT NULL) = (outcome IS NOT NULL AND outcome IN ('transient', 'permanent'))),
    CHECK (outcome IS NULL OR attempt IS NOT NULL),
    CHECK (authorises IS NULL OR ruling IN ('retry', 'release')),
    CHECK (ruling IS DISTINCT FROM 'retry' OR authorises IS NOT NULL),
    CHECK (ruling NOT IN ('retry', 'wait', 'hold', 'release', 'ask') OR due_at IS NOT NULL)
);

-- who holds a reference that a look-up found; the queue ids of SMTP cannot be looked up
CREATE INDEX observation_reference ON sendledger.observation (provider_reference)
WHERE provider_reference IS NOT NULL AND stage IS DISTINCT FROM 'dot';

-- erasable: literal replies, report parts, callback bodies
CREATE TABLE sendledger.evidence (
    intent_id bigint NOT NULL,
    seq integer NOT NULL,
    literal bytea NOT NULL,
    PRIMARY KEY (intent_id, seq),
    FOREIGN KEY (intent_id, seq) REFERENCES sendledger.observation (intent_id, seq)
);

CREATE TABLE sendledger.attempt (
    intent_id bigint NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    result_due_at timestamptz NOT NULL,
    unknown_due_at timestamptz NOT NULL,
    evidence_due_at timestamptz NOT NULL,
    window_ends_at timestamptz NOT NULL,
    txid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    claim_token uuid NOT NULL,
    seq integer NOT NULL CHECK (seq > 0),
    decision_seq integer,
    number smallint NOT NULL CHECK (number BETWEEN 1 AND 50),
    token_key_id smallint NOT NULL,
    units smallint CHECK (units >= 0),
    previous smallint GENERATED ALWAYS AS (CASE WHEN number > 1 THEN number - 1 END) STORED,
    authorised smallint GENERATED ALWAYS AS (CASE WHEN number > 1 THEN number END) STORED,
    policy_revision text NOT NULL,
    seal bytea NOT NULL CHECK (octet_length(seal) = 8),
    PRIMARY KEY (intent_id, number),
    CHECK ((number = 1) = (decision_seq IS NULL)),
    CHECK (evidence_due_at <= window_ends_at),
    FOREIGN KEY (intent_id, previous) REFERENCES sendledger.attempt (intent_id, number),
    FOREIGN KEY (intent_id, decision_seq, authorised)
        REFERENCES sendledger.observation (intent_id, seq, authorises)
);
"""

GUARDS = """
CREATE FUNCTION sendledger.refuse_change() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    RAISE EXCEPTION 'sendledger.%%: % refused, % are never changed',
        TG_TABLE_NAME, TG_OP, TG_ARGV[0] USING ERRCODE = 'insufficient_privilege';
END
$body$;
"""

APPEND_ONLY = "policy_revision content batch intent observation attempt"

DELIVERY = """
-- the projection and the work queue; fillfactor leaves room for the updates of one delivery's life
CREATE TABLE sendledger.delivery (
    intent_id bigint PRIMARY KEY,
    batch_id bigint NOT NULL,
    due_at timestamptz,
    wake_at timestamptz,
    looked_at timestamptz,
    lease_until timestamptz,
    claim_token uuid,
    seq integer NOT NULL DEFAULT 0,
    because integer NOT NULL DEFAULT 0,
    decision_seq integer,
    attempt_count smallint NOT NULL DEFAULT 0,
    spent smallint NOT NULL DEFAULT 0,
    claims smallint NOT NULL DEFAULT 0,
    lane smallint NOT NULL,
    contradicted boolean NOT NULL DEFAULT false,
    channel text NOT NULL,
    status text NOT NULL CHECK (status IN ('planned', 'submitting', 'ambiguous', 'submitted',
        'deferred', 'delivered', 'failed', 'suppressed')),
    awaits text CHECK (awaits IN (
        'dispatch', 'result', 'evidence', 'decision', 'retry', 'release')),
    CHECK ((awaits IS NULL) = (due_at IS NULL)),
    CHECK (awaits IS NULL OR status NOT IN ('delivered', 'failed', 'suppressed')),
    CHECK ((status = 'submitting') = (awaits IS NOT NULL AND awaits = 'result')),
    CHECK ((claim_token IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05);

-- the queue: unclaimed rows awaiting dispatch or retry
CREATE INDEX delivery_claim ON sendledger.delivery (channel, lane, wake_at, intent_id)
WHERE claim_token IS NULL AND awaits IN ('dispatch', 'retry');
-- the main metric: the oldest overdue row of a channel and of what it awaits
CREATE INDEX delivery_due ON sendledger.delivery (channel, awaits, due_at)
WHERE awaits IS NOT NULL;
-- recovery: leases that ended
CREATE INDEX delivery_lease ON sendledger.delivery (lease_until)
WHERE claim_token IS NOT NULL;
-- waits for evidence that end or are to be looked up
CREATE INDEX delivery_wake ON sendledger.delivery (channel, wake_at)
WHERE awaits = 'evidence';
-- handoffs whose result is unknown: few, whatever is behind them
CREATE INDEX delivery_unknown ON sendledger.delivery (channel)
WHERE status = 'ambiguous';
"""

INBOX = """
CREATE TABLE sendledger.inbox (
    inbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    occurred_at timestamptz,
    intent_id bigint,
    attempt smallint,
    channel text NOT NULL,
    source text NOT NULL CHECK (source IN ('receipt', 'feed')),
    identity text NOT NULL,
    evidence json NOT NULL,
    body bytea NOT NULL,
    UNIQUE NULLS NOT DISTINCT (intent_id, attempt, channel, source, identity)
);

CREATE TABLE sendledger.quarantine (
    quarantine_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    received_at timestamptz NOT NULL,
    intent_id bigint,
    attempt smallint,
    channel text NOT NULL,
    source text NOT NULL CHECK (source IN ('receipt', 'feed')),
    identity text NOT NULL,
    reason text NOT NULL,
    evidence json NOT NULL,
    body bytea NOT NULL
);
"""

SCOPES = """
CREATE TABLE sendledger.pause (
    pause_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz,
    reply_code integer,
    scope_key text NOT NULL,
    rule text NOT NULL,
    began_by text NOT NULL,
    ended_by text,
    configuration text,
    stage text,
    literal bytea,
    CHECK ((ended_at IS NULL) = (ended_by IS NULL))
);
CREATE UNIQUE INDEX pause_open ON sendledger.pause (scope_key) WHERE ended_at IS NULL;

CREATE TABLE sendledger.back_off (
    scope_key text PRIMARY KEY,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    probe_at timestamptz NOT NULL,
    probes integer NOT NULL DEFAULT 0,
    rule text NOT NULL
);

-- turns per second of a scope: when the next one is free, and when the last row told to wait comes again
CREATE TABLE sendledger.turn (
    scope_key text PRIMARY KEY,
    next_at timestamptz NOT NULL,
    tail_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- who works now; for people only, nothing depends on it
CREATE TABLE sendledger.worker (
    worker_id uuid PRIMARY KEY,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    pid integer NOT NULL,
    host text NOT NULL,
    version text NOT NULL,
    channels text [] NOT NULL,
    in_flight integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE sendledger.suppression (
    suppression_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    intent_id bigint,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    lifted_at timestamptz,
    seq integer,
    destination_fingerprint bytea NOT NULL CHECK (octet_length(destination_fingerprint) = 16),
    scope_key text NOT NULL,
    rule text NOT NULL,
    lifted_by text,
    FOREIGN KEY (intent_id, seq) REFERENCES sendledger.observation (intent_id, seq),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
);
CREATE UNIQUE INDEX suppression_standing ON sendledger.suppression (destination_fingerprint, scope_key)
WHERE lifted_at IS NULL;

CREATE TABLE sendledger.task (
    task_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    intent_id bigint,
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    closed_at timestamptz,
    kind text NOT NULL CHECK (kind IN (
        'failed', 'unknown', 'contradicted', 'held', 'paused', 'back-off', 'commits-lost',
        'receipts-refused')),
    cause text NOT NULL,
    scope_key text NOT NULL,
    closed_by text,
    CHECK ((closed_at IS NULL) = (closed_by IS NULL))
);
CREATE UNIQUE INDEX task_open ON sendledger.task (kind, cause, scope_key) WHERE closed_at IS NULL;
"""


def upgrade() -> None:
    """Create the schema."""
    for part in (INSTALLATION, INTENTS, LEDGER, GUARDS.replace("%%", "%")):
        op.execute(part)
    for table in APPEND_ONLY.split():
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE"
            f" ON sendledger.{table} FOR EACH STATEMENT"
            f" EXECUTE FUNCTION sendledger.refuse_change('ledger rows')"
        )
    for part in (DELIVERY, PARENTS, INBOX, SCOPES, DISPATCHING):
        op.execute(part)
    op.execute(
        "CREATE TRIGGER terminal_is_final BEFORE UPDATE OF status ON sendledger.delivery"
        " FOR EACH ROW WHEN (OLD.status IN ('delivered', 'failed', 'suppressed')"
        " AND NEW.status <> OLD.status)"
        " EXECUTE FUNCTION sendledger.refuse_change('terminal statuses')"
    )
