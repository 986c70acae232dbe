package main

import (
	"fmt"
	"strings"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// toolsOf returns the policy for additions and the field managers of interactive tools.
func (o *options) toolsOf() (v1alpha1.AdditionsPolicy, ownership.Tools, error) {
	policy := v1alpha1.AdditionsPolicy(o.additions)
	switch policy {
	case v1alpha1.AdditionsKeep, v1alpha1.AdditionsWarn, v1alpha1.AdditionsRevert:
	default:
		return "", nil, fmt.Errorf("%s is %q: it must be Keep, Warn or Revert", o.origins.Name("drift-additions"), o.additions)
	}
	tools := ownership.Tools{}
	for name := range strings.SplitSeq(o.peopleTools, ",") {
		if name = strings.TrimSpace(name); name != "" {
			tools = append(tools, name)
		}
	}
	if err := tools.Validate(); err != nil {
		return "", nil, fmt.Errorf("%s: %w", o.origins.Name("people-tools"), err)
	}
	return policy, tools, nil
}
