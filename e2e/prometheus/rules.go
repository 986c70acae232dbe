package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"gopkg.in/yaml.v2"
)

// testFile is a file of unit tests: the part of the format of promtool that is used here.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []test         `yaml:"tests"`
}

type test struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	AlertRuleTest []alertTest `yaml:"alert_rule_test"`
}

type alertTest struct {
	EvalTime  model.Duration `yaml:"eval_time"`
	Alertname string         `yaml:"alertname"`
	ExpAlerts []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

// testRules runs the tests of a file.
func testRules(path string) error {
	text, err := os.ReadFile(path) //nolint:gosec // the test names it
	if err != nil {
		return err
	}
	file := testFile{EvaluationInterval: model.Duration(time.Minute)}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for i, rule := range file.RuleFiles {
		file.RuleFiles[i] = filepath.Join(filepath.Dir(path), rule)
	}
	var failed error
	for _, t := range file.Tests {
		if err := t.run(file); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %s: %w", path, t.Name, err))
		}
	}
	return failed
}

// run evaluates the rules over time and compares the alerts that fire.
func (t test) run(file testFile) error {
	var load strings.Builder
	fmt.Fprintf(&load, "load %s\n", t.Interval)
	for _, s := range t.InputSeries {
		fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
	}
	loader, err := promqltest.NewLazyLoader(load.String(), promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return err
	}
	defer loader.Close() //nolint:errcheck // its files are temporary
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(loader.QueryEngine(), loader.Storage()), Appendable: loader.Storage(),
		Context: context.Background(), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger: promslog.NewNopLogger(), Parser: parser.NewParser(parser.Options{}),
	})
	groups, errs := manager.LoadGroups(time.Duration(t.Interval), labels.EmptyLabels(), "", nil, false, file.RuleFiles...)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	last := time.Duration(0)
	for _, c := range t.AlertRuleTest {
		last = max(last, time.Duration(c.EvalTime))
	}
	var failed error
	for at := time.Duration(0); at <= last; at += time.Duration(file.EvaluationInterval) {
		now := time.Unix(0, 0).UTC().Add(at)
		loader.WithSamplesTill(now, func(err error) {
			failed = errors.Join(failed, err)
			for _, group := range groups {
				group.Eval(loader.Context(), now)
				for _, rule := range group.Rules() {
					if err := rule.LastError(); err != nil {
						failed = errors.Join(failed, fmt.Errorf("%s at %s: %w", rule.Name(), at, err))
					}
				}
			}
		})
		for _, c := range t.AlertRuleTest {
			if time.Duration(c.EvalTime) == at {
				failed = errors.Join(failed, c.compare(groups))
			}
		}
	}
	return failed
}

// compare compares the alerts that fire with those that should.
func (c alertTest) compare(groups map[string]*rules.Group) error {
	var got, want []string
	known := false
	for _, group := range groups {
		for _, rule := range group.Rules() {
			alerting, is := rule.(*rules.AlertingRule)
			if !is || alerting.Name() != c.Alertname {
				continue
			}
			known = true
			for _, alert := range alerting.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					got = append(got, alert.Labels.String()+"\n  "+alert.Annotations.String())
				}
			}
		}
	}
	for _, alert := range c.ExpAlerts {
		all := map[string]string{labels.AlertName: c.Alertname}
		for name, value := range alert.Labels {
			all[name] = value
		}
		want = append(want, labels.FromMap(all).String()+"\n  "+labels.FromMap(alert.Annotations).String())
	}
	slices.Sort(got)
	slices.Sort(want)
	switch {
	case !known:
		return fmt.Errorf("there is no alert %s", c.Alertname)
	case !slices.Equal(got, want):
		return fmt.Errorf("%s at %s: firing are\n%s\nexpected are\n%s", c.Alertname, c.EvalTime, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}
