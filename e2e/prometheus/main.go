package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) > 1 && args[0] == "rules":
		var failed error
		for _, path := range args[1:] {
			failed = errors.Join(failed, testRules(path))
		}
		return failed
	case len(args) == 1 && args[0] == "query":
		return query(ctx, in, out)
	}
	return errors.New("usage: prometheus rules TEST..., or prometheus query")
}
