// Command operator runs Vidra: it applies the objects of VidraResources, watches
// them, and reverts changes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vidra-operator/vidra/cmd/internal/version"
	"github.com/vidra-operator/vidra/pkg/source/flux"
	"github.com/vidra-operator/vidra/pkg/terminal"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == flux.BuildArgument {
		os.Exit(flux.ServeBuild(os.Stdin, os.Stdout))
	}
	opts := options{}
	opts.bind(flag.CommandLine)
	logOptions := zap.Options{}
	logOptions.BindFlags(flag.CommandLine)
	switch err := parse(flag.CommandLine, os.Args[1:]); { // --kubeconfig is a flag of controller-runtime
	case errors.Is(err, flag.ErrHelp):
		flag.Usage()
		return
	case err != nil:
		fail(fmt.Errorf("%w: see --help", err))
	}
	if opts.version {
		fmt.Println(version.Line("vidra-operator"))
		return
	}
	if err := opts.complete(flag.CommandLine); err != nil {
		fail(err)
	}
	log := newLogger(logOptions, os.Stderr)
	ctrl.SetLogger(log.Logger)
	klog.SetLogger(log.Logger) // client-go logs through klog

	if flag.NArg() > 0 {
		fail(fmt.Errorf("unexpected argument %q: the operator takes flags only, see --help", flag.Arg(0)))
	}
	setGCPercent()
	if err := limitMemory(); err != nil {
		fail(err)
	}
	if err := run(ctrl.SetupSignalHandler(), opts, log); err != nil {
		fail(err)
	}
}

// parse reads the flags, without the usage that package flag prints below an error: the log of a Pod would end with its last lines.
func parse(fs *flag.FlagSet, args []string) error {
	out := fs.Output()
	fs.Init(fs.Name(), flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	defer fs.SetOutput(out)
	return fs.Parse(args)
}

// fail ends the process with an error for the user.
func fail(err error) {
	fmt.Fprintln(os.Stderr, "vidra-operator:", terminal.Escape(err.Error()))
	os.Exit(1)
}
