package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

const (
	// maxManagers is how many field managers outside namedManagers have a series of
	// their own.
	maxManagers = 40
	// maxManagerName is the maximum length of their names.
	maxManagerName = 64

	// otherManager is the label of further managers, and of names that are too long or have
	// unusual characters.
	otherManager = "other"
	// unknownManager is the label of changes without a manager in the API server: a manager that removes a field, or deletes
	// the object, owns nothing of it.
	unknownManager = "unknown"
	// vidraManager is the label of all VidraResources, which have a field manager each.
	vidraManager = "vidra"
)

// namedManagers always have a series of their own. Otherwise a user could use up maxManagers
// with invented names, and the managers that matter would be counted as other.
var namedManagers = []string{
	"kubectl", "kubectl-edit", "kubectl-patch", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace", "kubectl-label",
	"kubectl-annotate", "kubectl-set", "kubectl-rollout", "oc", "k9s", "Mozilla", "dashboard", "headlamp", "Lens", "OpenLens", "freelens",
	"helm", "argocd-controller", "kustomize-controller", "helm-controller", "Terraform", "kube-controller-manager", "kube-scheduler",
	"kubelet", "vpa-updater", "cluster-autoscaler", "manager", "before-first-apply", otherManager, unknownManager, vidraManager,
}

// exposure counts how long foreign values stood. It is safe for concurrent use.
type exposure struct {
	seconds *prometheus.CounterVec

	// mu guards known.
	mu *sync.Mutex
	// known are the managers that have a series of their own.
	known map[string]bool
}

func newExposure() exposure {
	e := exposure{
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vidra_exposure_seconds_total",
			Help: "How long foreign values stood until they were reverted, from when the operator received the event, by the field manager that wrote them: " +
				"unknown where the API server records none, as for deletions, vidra for other VidraResources, and other for managers beyond the first 40. " +
				"What is not reverted, because of spec.drift, spec.suspend or break-glass, is not counted.",
		}, []string{"manager"}),
		mu: &sync.Mutex{}, known: map[string]bool{},
	}
	for _, name := range namedManagers {
		e.known[name] = true
	}
	return e
}

// add counts how long the changes of a revert stood, once for each manager that made some.
func (e *exposure) add(h Heal, took float64) {
	counted := map[string]bool{}
	for _, c := range h.Fields {
		if c.Kind != ownership.Taken { // then the value is ours
			counted[e.label(c.Manager)] = true
		}
	}
	if len(h.Fields) == 0 {
		counted[unknownManager] = true
	}
	for manager := range counted {
		e.seconds.WithLabelValues(manager).Add(took)
	}
}

// label returns the value of the label for a field manager. Users choose the names of field
// managers, so their number and length are limited here.
func (e *exposure) label(manager string) string {
	switch {
	case manager == "":
		return unknownManager
	case strings.HasPrefix(manager, v1alpha1.FieldManagerPrefix):
		return vidraManager
	case len(manager) > maxManagerName, strings.ContainsFunc(manager, unusual):
		return otherManager
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known[manager] {
		if len(e.known) >= len(namedManagers)+maxManagers {
			return otherManager
		}
		e.known[manager] = true
	}
	return manager
}

// unusual reports whether a character is foreign to names of programs.
func unusual(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._:/@ ", r)
}
