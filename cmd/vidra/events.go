package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/vidra-operator/vidra/pkg/insight"
	"github.com/vidra-operator/vidra/pkg/insight/render"
)

const eventsHelp = `List the Events of Vidra: what it applied, which change of which field manager it
reverted, and what is wrong. The newest Event is the last one.

Most Events regard a VidraResource, which has no namespace, and have the object as
related; the revert of a change also has an Event about the object. NAME or
--vidraresource finds those of a VidraResource and its objects. Without both, all
Events of Vidra are listed.

--for and --namespace find Events about an object: those that regard it or are
related to it, and those about several objects, such as Applied, Pruned and a problem
of several objects. An Event about more than 100 objects is found by the first 100;
--vidraresource finds it always.

With --watch, Events are printed as they come, and an Event whose count grew is
printed again. Ctrl-C ends it.`

const eventsExample = `  vidra events                                     # all Events of Vidra
  vidra events web --watch                         # of a VidraResource and its objects
  vidra events --for deployment/web -n shop        # of one object: why was my edit reverted?
  vidra events --type Warning --since 1h           # what is wrong
  vidra events --reason DriftCorrected,DriftDetected -o json`

// eventsFlags holds the flags of the command.
type eventsFlags struct {
	kube          *kube
	vidraResource string
	object        string
	reasons       []string
	eventType     string
	since         string
	output        string
	watch         bool
}

func newEvents(k *kube) *cobra.Command {
	f := &eventsFlags{kube: k}
	cmd := &cobra.Command{
		Use:     "events [NAME]",
		Short:   "List the Events of Vidra: what it did, and why",
		Long:    eventsHelp,
		Example: eventsExample,
		Args:    wants(cobra.MaximumNArgs(1), formName), ValidArgsFunction: k.completeName,
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.BoolP("all-namespaces", "A", false, "Events about objects in any namespace, which is the default")
	flags.StringVar(&f.vidraResource, "vidraresource", "", "only Events about this VidraResource, or about its objects")
	flags.StringVar(&f.object, "for", "", "only Events about this object, or related to it: KIND/NAME or KIND.GROUP/NAME")
	flags.StringSliceVar(&f.reasons, "reason", nil, "only these reasons, separated by commas, such as DriftCorrected")
	flags.StringVar(&f.eventType, "type", "", "only this type: Normal or Warning")
	flags.StringVar(&f.since, "since", "", "only Events of the last time, such as 10m")
	flags.StringVarP(&f.output, "output", "o", "", "wide, json or yaml instead of a table")
	flags.BoolVarP(&f.watch, "watch", "w", false, "print new Events as they come")
	return cmd
}

// run lists Events, and follows them if that is wanted.
func (f *eventsFlags) run(cmd *cobra.Command, names []string) error {
	if len(names) == 1 && f.vidraResource != "" {
		return errors.New("NAME and --vidraresource exclude each other")
	} else if len(names) == 1 {
		f.vidraResource = names[0]
	}
	q, err := f.query(time.Now())
	if err != nil {
		return err
	}
	ctx, out, errOut := cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	printer := &render.EventPrinter{Out: out, Follow: f.watch, Colour: coloured(out), Now: time.Now}
	if f.output != "" {
		format, err := oneOf("output", f.output, []string{outputWide, outputJSON, outputYAML})
		if err != nil {
			return err
		}
		if printer.Wide = format == outputWide; !printer.Wide {
			printer.Format = format
		}
	}
	client, err := f.kube.insight()
	if err != nil {
		return err
	}
	if f.watch {
		return client.FollowEvents(ctx, q, printer.Print, func(text string) { printMessage(errOut, text) })
	}
	found, err := client.Events(ctx, q)
	if found != nil {
		printMessages(errOut, found.Remarks)
	}
	if err != nil {
		return err
	}
	if len(found.Items) == 0 && printer.Format == "" {
		_, err := fmt.Fprintln(errOut, "No events found.")
		return err
	}
	return printer.Print(found.Items)
}

// query is the query that the flags describe.
func (f *eventsFlags) query(now time.Time) (q insight.EventQuery, err error) {
	q.Namespace = *f.kube.Namespace // and not that of the context: most Events regard a VidraResource, which has none
	if err := validateNamespace("namespace", q.Namespace); err != nil {
		return q, err
	}
	if f.vidraResource != "" {
		if problems := validation.IsDNS1123Subdomain(f.vidraResource); len(problems) > 0 {
			return q, fmt.Errorf("--vidraresource %q: want the name of a VidraResource: %s", f.vidraResource, nameRule(problems))
		}
		q.VidraResource = f.vidraResource
	}
	if f.object != "" {
		kind, name, err := splitFor(f.object)
		if err != nil {
			return q, err
		}
		q.Target = &insight.Target{Kind: kind, Namespace: q.Namespace, Name: name}
	}
	for _, text := range f.reasons {
		reason, err := oneOf("reason", text, eventReasons())
		if err != nil {
			return q, err
		}
		q.Reasons = append(q.Reasons, reason)
	}
	if f.eventType != "" {
		if q.Type, err = oneOf("type", f.eventType, eventTypes); err != nil {
			return q, err
		}
	}
	q.Since, err = insight.SinceOf("--since", f.since, now)
	return q, err
}
