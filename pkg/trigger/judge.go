package trigger

import (
	"slices"

	"github.com/vidra-operator/vidra/pkg/healthcheck"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// judgement is the verdict on an event for one owner.
type judgement struct {
	owner   Owner
	verdict Verdict
	// observation is the judged thing: the event, or an edit that was merged into it.
	observation observation
	// event is the state of the object in the event.
	event *Snapshot
	// before are the fields of other managers before an edit that was made during an apply; nil if the Index has it.
	before *ownership.Paths
}

// judge returns the verdicts on an observation for every owner of the object. It defers the
// observation for owners with a running apply.
func (x *Index) judge(key compactKey, o observation) []judgement {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []judgement
	for c := x.claims[key]; c != nil; c = c.next {
		c.noteSensitive(o)
		if o.rewound {
			c.expected.version = version{}
		}
		if c.inFlight {
			c.deferEvent(o)
			all = append(all, judgement{owner: c.holder.owner, verdict: VerdictInFlight, observation: o})
			continue
		}
		all = append(all, c.judgeEvent(o))
	}
	return all
}

// isDeferred reports whether the event with a snapshot waits for an apply.
func (x *Index) isDeferred(key compactKey, s *Snapshot) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		if c.deferredEvent != nil && (c.deferredEvent.snapshot == s || slices.Contains(c.deferredEvent.skipped, s)) {
			return true
		}
	}
	return false
}

// lookUp returns the key as the Index stores it, so that equal names share memory, the field managers that are expected in the
// object, the managers among them with unreverted drift, the tools whose additions count for each of them, and the checks of their health.
func (x *Index) lookUp(key compactKey) (known compactKey, managers, unreverted []string, tools map[string]ownership.Tools, checks []*healthcheck.Checks) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := x.claims[key]; c != nil; c = c.next {
		key = c.key
		if c.expected.owned.manager != 0 { // an object that is only to be removed has none
			managers = append(managers, c.holder.manager)
		}
		if c.unreverted {
			unreverted = append(unreverted, c.holder.manager)
		}
		if c.holder.checks != nil {
			checks = append(checks, c.holder.checks)
		}
		if len(c.holder.tools) > 0 {
			if tools == nil {
				tools = map[string]ownership.Tools{}
			}
			tools[c.holder.manager] = c.holder.tools
		}
	}
	return key, managers, unreverted, tools, checks
}

// asExpected reports whether an object has an owner, and whether all its owners find it as
// expected.
func (x *Index) asExpected(key compactKey, s *Snapshot) (claimed, asExpected bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := x.claims[key]
	for c := first; c != nil; c = c.next {
		switch judge(c, observation{snapshot: s}) {
		case VerdictAsExpected, VerdictEcho, VerdictStale, VerdictTerminating:
		default:
			return true, false
		}
	}
	return first != nil, true
}
