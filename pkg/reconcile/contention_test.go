package reconcile

import (
	"github.com/vidra-operator/vidra/pkg/events"
)

func (f *fielded) Record(all []events.Event) { f.all = append(f.all, all...) }

// withReason returns the Events with a reason.
func (f *fielded) withReason(reason string) (found []events.Event) {
	for _, e := range f.all {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}
