package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
)

// labOptions are the flags of each benchmark that needs a lab.
type labOptions struct {
	// operator is the executable, or empty for that of the checkout.
	operator string
	output   string
}

// parse adds the flags to those of the benchmark, and parses all.
func (o *labOptions) parse(fs *flag.FlagSet, args []string) error {
	fs.StringVar(&o.operator, "operator", "", "The executable of the operator; that of this checkout is built otherwise.")
	fs.StringVar(&o.output, "o", "table", "What to print: table or json.")
	if err := parseFlags(fs, os.Stderr, args); err != nil {
		return err
	}
	return checkOutput(o.output)
}

// run measures in a lab of its own, and prints the report.
func (o *labOptions) run(ctx context.Context, open func(ctx context.Context, binary string) (*lab, error), measure func(*lab) (report, error)) error {
	l, err := open(ctx, o.operator)
	if err != nil {
		return err
	}
	result, err := measure(l)
	if err := errors.Join(err, l.close()); err != nil {
		return err
	}
	return show(os.Stdout, result, o.output)
}

// atLeastOne returns an error if a flag is not positive.
func atLeastOne(name string, value int) error {
	if value < 1 {
		return fmt.Errorf("-%s is %d: at least one is needed", name, value)
	}
	return nil
}
