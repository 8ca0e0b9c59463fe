"""The loops: dispatch, heartbeat, recover, settle. Each has an interval, a stop and an owner."""
