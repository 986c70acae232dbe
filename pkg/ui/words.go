package ui

import (
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
)

// replicaCount is a count in a message about the health of a workload, and replicaWords are the words for its kinds.
var (
	replicaCount = regexp.MustCompile(`(?:InProgress: )?\b(Replicas|Updated|Ready|Available): (\d+)/(\d+)`)
	replicaWords = map[string]string{"Replicas": "exist", "Updated": "are updated", "Ready": "are ready", "Available": "are available"}
)

// plainText is a message in the words of the page: one word for each state, and counts as a sentence.
func plainText(message string) string {
	message = replicaCount.ReplaceAllStringFunc(message, func(count string) string {
		part := replicaCount.FindStringSubmatch(count)
		return part[2] + " of " + part[3] + " replicas " + replicaWords[part[1]]
	})
	return strings.NewReplacer("not healthy: Progressing: ", "In progress: ", "InProgress: ", "in progress: ").Replace(message)
}

// reasonWord is the reason of a problem as the page shows it.
func reasonWord(reason string) string {
	if reason == v1alpha1.ReasonProgressing {
		return states[stateInProgress].Word
	}
	return reason
}

// shortest is the least length of a word of an advice that counts as content.
const shortest = 5

// nextStep is the advice about a problem; empty where the message has it already.
func nextStep(reason, message string) string {
	next, said := advices[reason], strings.ToLower(message)
	for _, word := range strings.FieldsFunc(strings.ToLower(next), func(r rune) bool { return r < 'a' || r > 'z' }) {
		if len(word) >= shortest && !strings.Contains(said, word) {
			return next
		}
	}
	return ""
}

// conditionWords are the phrases for conditions that are True and False.
var conditionWords = map[string][2]string{
	v1alpha1.ConditionReady:    {"Ready", "Not ready"},
	v1alpha1.ConditionHealthy:  {"Healthy", "Unhealthy"},
	v1alpha1.ConditionDrifted:  {"Drifted", "No drift"},
	v1alpha1.ConditionWatching: {"Edits are seen at once", "Edits may be missed"},
}

// conditionPhrase is a condition as a phrase.
func conditionPhrase(c metav1.Condition) string {
	words, known := conditionWords[c.Type]
	switch {
	case c.Reason == v1alpha1.ReasonEventsOff && c.Type == v1alpha1.ConditionWatching:
		return "Edits are found by resyncs"
	case c.Status != metav1.ConditionFalse && c.Status != metav1.ConditionTrue:
		return c.Type + " unknown"
	case c.Status == metav1.ConditionFalse && (c.Reason == v1alpha1.ReasonProgressing || c.Reason == v1alpha1.ReasonStarting):
		return c.Type + ": in progress"
	case known && c.Status == metav1.ConditionTrue:
		return words[0]
	case known:
		return words[1]
	case c.Status == metav1.ConditionFalse:
		return "Not " + strings.ToLower(c.Type)
	}
	return c.Type
}
