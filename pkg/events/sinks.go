package events

import "time"

// Controller is the reportingController of every Event.
const Controller = "vidra-operator"

// FlushTimeout is how long the sinks (packages recorder and cloudevents) continue to write Events
// when the operator stops. It is part of the time that a Pod has to end.
const FlushTimeout = 5 * time.Second
