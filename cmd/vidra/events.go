package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	typedeventsv1 "k8s.io/client-go/kubernetes/typed/events/v1"

	"github.com/vidra-operator/vidra/pkg/api/v1alpha1"
	"github.com/vidra-operator/vidra/pkg/reconcile/object"
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
	*kube
	namespace     string
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
		RunE: func(cmd *cobra.Command, names []string) error {
			if len(names) == 1 && f.vidraResource != "" {
				return errors.New("NAME and --vidraresource exclude each other")
			} else if len(names) == 1 {
				f.vidraResource = names[0]
			}
			f.namespace = *k.Namespace // and not that of the context: most Events regard a VidraResource, which has none
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
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
func (f *eventsFlags) run(ctx context.Context, out, errOut io.Writer) error {
	filter, err := f.filter(time.Now())
	if err != nil {
		return err
	}
	printer := &eventPrinter{out: out, output: f.output, follow: f.watch, colour: coloured(out), now: time.Now}
	if f.output != "" {
		if printer.output, err = oneOf("output", f.output, eventOutputs); err != nil {
			return err
		}
	}
	config, err := f.config()
	if err != nil {
		return err
	}
	if err := f.resolveFor(&filter, errOut); err != nil {
		return err
	}
	client, err := typedeventsv1.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("use the kubeconfig: %w", err)
	}
	source := &eventSource{client: client, selector: filter.selector().String(), errOut: errOut}
	all, err := source.listWithin(ctx, f.namespace)
	if err != nil {
		return err
	}
	if f.watch {
		return followEvents(ctx, source, filter, all, printer)
	}
	all = slices.DeleteFunc(all, func(e *eventsv1.Event) bool { return !filter.matches(e) })
	sortEvents(all)
	if len(all) == 0 {
		if err := f.requireKnown(ctx, filter); err != nil {
			return err
		}
	}
	if len(all) == 0 && printer.isTable() {
		_, err := fmt.Fprintln(errOut, "No events found.")
		return err
	}
	return printer.print(all)
}

// filter returns the filter that the flags describe, but for --for, which needs
// discovery.
func (f *eventsFlags) filter(now time.Time) (filter eventFilter, err error) {
	filter.namespace = f.namespace
	if err := validateNamespace(f.namespace); err != nil {
		return filter, err
	}
	if f.vidraResource != "" {
		if problems := validation.IsDNS1123Subdomain(f.vidraResource); len(problems) > 0 {
			return filter, fmt.Errorf("--vidraresource %q: want the name of a VidraResource: %s", f.vidraResource, nameRule(problems))
		}
		filter.about = append(filter.about, vidraResource(f.vidraResource))
	}
	if f.object != "" {
		if _, _, err := splitFor(f.object); err != nil {
			return filter, err
		}
	}
	for _, text := range f.reasons {
		reason, err := oneOf("reason", text, eventReasons())
		if err != nil {
			return filter, err
		}
		filter.reasons = append(filter.reasons, reason)
	}
	if f.eventType != "" {
		if filter.eventType, err = oneOf("type", f.eventType, eventTypes); err != nil {
			return filter, err
		}
	}
	filter.since, err = parseSince(f.since, now)
	return filter, err
}

// resolveFor adds the object of --for to the filter.
func (f *eventsFlags) resolveFor(filter *eventFilter, errOut io.Writer) error {
	if f.object == "" {
		return nil
	}
	kind, name, err := splitFor(f.object)
	if err != nil {
		return err
	}
	mapper, err := f.ToRESTMapper()
	if err != nil {
		return fmt.Errorf("find the kind %q: %w", kind, err)
	}
	object, served, err := kindFrom(mapper, kind)
	if err != nil {
		return err
	}
	if !served {
		printMessage(errOut, fmt.Sprintf("the cluster serves no kind %q: searching Events for that name", kind))
	}
	object.name = name
	filter.about = append(filter.about, object)
	return nil
}

// requireKnown requires that the VidraResource and the object exist that no Event is about, as far as the user may read them.
func (f *eventsFlags) requireKnown(ctx context.Context, filter eventFilter) error {
	if len(filter.about) == 0 {
		return nil
	}
	client, err := f.dynamic()
	if err != nil {
		return err
	}
	all, err := listVidraResources(ctx, client, "")
	if err != nil { // Events of a namespace may be read by users who may read no VidraResource
		return nil //nolint:nilerr // it is not known
	}
	for _, about := range filter.about {
		id := object.Identity{GroupKind: schema.GroupKind{Kind: about.kind}, Namespace: f.namespace, Name: about.name}
		if about.group == nil {
			return f.noKind(about.kind)
		}
		id.Group = *about.group
		managed := func(m managedObject) bool {
			return m.id.Name == id.Name && (f.namespace == "" || m.id.Namespace == f.namespace)
		}
		switch {
		case id.GroupKind == v1alpha1.GroupVersion.WithKind(v1alpha1.Kind).GroupKind():
			if !slices.ContainsFunc(all, func(vr *v1alpha1.VidraResource) bool { return vr.Name == about.name }) {
				return noVidraResource(about.name, all)
			}
		case !slices.ContainsFunc(managedOfKind(all, id.GroupKind), managed):
			return fmt.Errorf("no Events found, and no VidraResource manages %s (%s searched)%s", id, plural(len(all), "VidraResource"), meant(id, all))
		}
	}
	return nil
}

// printMessage prints a message to the user, in addition to the Events.
func printMessage(errOut io.Writer, text string) {
	_, _ = fmt.Fprintln(errOut, "vidra:", oneLine(text)) // an error cannot be reported
}
