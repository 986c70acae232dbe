package main

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/vidra-operator/vidra/cmd/internal/configfile"
	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/ownership"
)

// operatorOf returns the settings of the operator in a file with an OperatorConfiguration; the defaults without one.
func operatorOf(path string) (operator insight.Operator, err error) {
	if path == "" {
		return operator, nil
	}
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	for _, field := range configfile.Fields() {
		if flags.Lookup(field.Flag) == nil {
			flags.String(field.Flag, "", "")
		}
	}
	if err := configfile.Load(path, flags, configfile.Origins{}); err != nil {
		return operator, fmt.Errorf("--operator-config: %w", err)
	}
	value := func(name string) string { return flags.Lookup(name).Value.String() }
	operator.Additions = v1alpha1.AdditionsPolicy(value("drift-additions"))
	if text := value("people-tools"); text != "" {
		operator.Tools = ownership.Tools{}
		for name := range strings.SplitSeq(text, ",") {
			operator.Tools = append(operator.Tools, strings.TrimSpace(name))
		}
	}
	if text := value("max-break-glass"); text != "" {
		longest, err := time.ParseDuration(text)
		if err != nil {
			return operator, fmt.Errorf("--operator-config %s: maxBreakGlass %q: %w", path, text, err)
		}
		operator.MaxBreakGlass = &longest
	}
	return operator, nil
}
