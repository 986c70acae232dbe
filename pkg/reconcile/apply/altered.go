package apply

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"github.com/vidra-operator/vidra/pkg/internal/display"
	"github.com/vidra-operator/vidra/pkg/reconcile/access"
	"github.com/vidra-operator/vidra/pkg/reconcile/desired"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
	"github.com/vidra-operator/vidra/pkg/reconcile/plan"
)

// maxWebhooks is how many webhooks a message names.
const maxWebhooks = 3

// alteredIn returns the fields of an applied object that hold another value than the manifest says. A heal asks for their possible writers only where
// other fields than before hold one, such as after the first write since a webhook was installed.
func (a *Applier) alteredIn(ctx context.Context, k known, done *Result) plan.Altered {
	d, live := k.task.Object, done.Applied.Live
	heals, before := done.Task.Why == plan.WhyDrift, done.Task.Known.Remarks.Altered
	switch {
	case d.Rules.Ignored: // not all of it was sent
		return plan.Altered{}
	case heals && k.expectedKnown && done.Applied.State.Digest == k.expected.Digest:
		return before
	}
	sent := d.Unstructured()
	differences := desired.Differences(sent, live)
	fields := desired.Signature(differences)
	switch {
	case len(differences) == 0:
		return plan.Altered{}
	case heals && fields == before.Fields:
		return before
	}
	return plan.Altered{Fields: fields, Texts: desired.Altered(differences, a.alteredBy(ctx, d, live), sent, live, done.Shown)}
}

// alteredBy names the possible writers of a changed value of the applied configuration: the mutating webhooks and policies that match
// the object by their rules and selectors, or the API server, which stores the other form of the value.
func (a *Applier) alteredBy(ctx context.Context, d *desired.Object, live *unstructured.Unstructured) string {
	names, err := Mutating(ctx, a.Client, d.Key.GVR.Group, d.Key.GVR.Resource, live)
	switch {
	case err != nil:
		return "the API server stores it so, or a mutating webhook has changed it: Vidra may not list these"
	case len(names) == 0:
		return "the API server stores it so, and no mutating webhook or policy matches the object. Write that value in the manifest"
	}
	return display.First(names, maxWebhooks, len(names)) + " may have changed it, if its matchConditions hold; otherwise the API server stores it so"
}

// Mutating returns the mutating webhooks and policies that match an object by their rules and selectors. matchConditions are
// ignored: they depend on the request.
func Mutating(ctx context.Context, client dynamic.Interface, group, resource string, obj *unstructured.Unstructured) ([]string, error) {
	m := matching{group: group, resource: resource, obj: obj}
	if namespace := obj.GetNamespace(); namespace != "" {
		live, err := client.Resource(access.Namespaces).Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		m.namespace = live.GetLabels()
	}
	var names []string
	list, err := client.Resource(webhookConfigurations).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, configuration); err != nil {
			return nil, err
		}
		for j := range configuration.Webhooks {
			if w := &configuration.Webhooks[j]; m.rules(w.Rules) && m.selects(w.NamespaceSelector, w.ObjectSelector) {
				names = append(names, fmt.Sprintf("mutating webhook %s of MutatingWebhookConfiguration %s", w.Name, configuration.Name))
			}
		}
	}
	policies, err := client.Resource(mutatingPolicies).List(ctx, metav1.ListOptions{})
	if err != nil {
		if object.KindGone(err) { // a version without these policies
			return names, nil
		}
		return nil, err
	}
	for i := range policies.Items {
		policy := &admissionregistrationv1.MutatingAdmissionPolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(policies.Items[i].Object, policy); err != nil {
			return nil, err
		}
		if match := policy.Spec.MatchConstraints; match != nil && m.policyRules(match.ResourceRules) && m.selects(match.NamespaceSelector, match.ObjectSelector) {
			names = append(names, "MutatingAdmissionPolicy "+policy.Name)
		}
	}
	return names, nil
}

// matching matches one object.
type matching struct {
	group, resource string
	obj             *unstructured.Unstructured
	// namespace are the labels of the namespace of the object; nil for a cluster-scoped one.
	namespace map[string]string
}

// rules reports whether one of the rules is about a create or update of the object. A webhook that asks for equivalent versions gets
// those, too, so any version matches.
func (m matching) rules(rules []admissionregistrationv1.RuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.RuleWithOperations) bool {
		writes := slices.ContainsFunc(rule.Operations, func(operation admissionregistrationv1.OperationType) bool {
			return operation == admissionregistrationv1.OperationAll || operation == admissionregistrationv1.Create || operation == admissionregistrationv1.Update
		})
		scope := rule.Scope == nil || *rule.Scope == admissionregistrationv1.AllScopes ||
			(*rule.Scope == admissionregistrationv1.NamespacedScope) == (m.obj.GetNamespace() != "")
		return writes && scope && hasName(rule.APIGroups, m.group) && (hasName(rule.Resources, m.resource) || slices.Contains(rule.Resources, "*/*"))
	})
}

func (m matching) policyRules(rules []admissionregistrationv1.NamedRuleWithOperations) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return (len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, m.obj.GetName())) &&
			m.rules([]admissionregistrationv1.RuleWithOperations{rule.RuleWithOperations})
	})
}

func hasName(names []string, name string) bool {
	return slices.Contains(names, "*") || slices.Contains(names, name)
}

// selects reports whether the selectors match; nil matches everything, and a namespace selector every cluster-scoped object but a
// Namespace.
func (m matching) selects(namespaces, objects *metav1.LabelSelector) bool {
	in := m.namespace
	if in == nil && m.obj.GetKind() == "Namespace" {
		in = m.obj.GetLabels()
	}
	return (m.namespace == nil && m.obj.GetKind() != "Namespace" || matches(namespaces, in)) && matches(objects, m.obj.GetLabels())
}

func matches(selector *metav1.LabelSelector, of map[string]string) bool {
	if selector == nil {
		return true
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err != nil || s.Matches(labels.Set(of)) // an unreadable one may match
}

var (
	webhookConfigurations = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	mutatingPolicies      = admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingadmissionpolicies")
)
