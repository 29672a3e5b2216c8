package shards

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
)

// Keys of the ConfigMap of a layout.
const (
	versionKey = "version"
	cutsKey    = "cuts"    // a line for each cut
	weightsKey = "objects" // a line for each shard
)

// MaxVersion is the largest version of a layout. A layout that replaces a layout with this version has the same
// version, and another ID.
const MaxVersion = 1 << 53

// ErrForeign is the error of Read if somebody else has created the ConfigMap.
var ErrForeign = errors.New("the ConfigMap does not belong to the operator")

// Store reads and writes the layout of an operator, which is in a ConfigMap in the namespace of its Leases.
type Store struct {
	ConfigMaps coreclient.ConfigMapInterface
	// Operator is the name of the operator.
	Operator string
}

// StoredLayout is a layout as the API server stores it. Without a ConfigMap, its version is 0, and it has no shards.
type StoredLayout struct {
	Layout
	in *corev1.ConfigMap
}

// Name returns the name of the ConfigMap.
func (s Store) Name() string { return s.Operator + "-shards" }

// Read reads the layout from the API server. If the layout in the ConfigMap is invalid, Read logs that, and returns a
// layout without shards whose version is 0. It returns the errors of the API server and ErrForeign, wrapped.
func (s Store) Read(ctx context.Context) (StoredLayout, error) {
	live, err := s.ConfigMaps.Get(ctx, s.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return StoredLayout{}, nil
	}
	if err != nil {
		return StoredLayout{}, fmt.Errorf("reading the layout of the shards from ConfigMap %s: %w", s.Name(), err)
	}
	if live.Labels[OperatorLabel] != s.Operator {
		return StoredLayout{},
			fmt.Errorf("reading ConfigMap %s: %w: set the label %s=%s if the operator may overwrite this ConfigMap",
				s.Name(), ErrForeign, OperatorLabel, s.Operator)
	}
	layout, err := layoutIn(live)
	if err != nil {
		klog.FromContext(ctx).Error(err, "A ConfigMap has no valid layout of the shards, and is written again",
			"configMap", klog.KObj(live))
		return StoredLayout{in: live}, nil
	}
	return StoredLayout{layout, live}, nil
}

// layoutIn returns the layout in a ConfigMap.
func layoutIn(configMap *corev1.ConfigMap) (Layout, error) {
	version, err := strconv.ParseInt(configMap.Data[versionKey], 10, 64)
	if err != nil || version < 1 || version > MaxVersion {
		return Layout{}, fmt.Errorf("reading the version %q", configMap.Data[versionKey])
	}
	cuts := strings.Fields(configMap.Data[cutsKey])
	if len(cuts) >= Max {
		return Layout{}, fmt.Errorf("%d cuts are too many", len(cuts))
	}
	layout, err := Parse(version, cuts)
	layout.Weights = weightsIn(configMap, layout.Shards())
	return layout, err
}

// weightsIn returns the weights of all shards, or nil unless the ConfigMap has a valid weight for each shard.
func weightsIn(configMap *corev1.ConfigMap, shards int) (weights []int) {
	for _, line := range strings.Fields(configMap.Data[weightsKey]) {
		weight, err := strconv.ParseInt(line, 10, 32)
		if err != nil || weight < 0 {
			return nil
		}
		weights = append(weights, int(weight))
	}
	if len(weights) != shards {
		return nil
	}
	return weights
}

// Replace writes the layout next in place of the layout stored. The precondition is that nobody has changed or created
// the ConfigMap since stored was read.
func (s Store) Replace(ctx context.Context, stored StoredLayout, next Layout) error {
	data := map[string]string{versionKey: strconv.FormatInt(next.Version, 10), cutsKey: strings.Join(next.Text(), "\n")}
	for _, weight := range next.Weights {
		data[weightsKey] += strconv.Itoa(weight) + "\n"
	}
	var err error
	if stored.in == nil {
		_, err = s.ConfigMaps.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: s.Name(), Labels: map[string]string{OperatorLabel: s.Operator}}, Data: data,
		}, metav1.CreateOptions{})
	} else {
		changed := stored.in.DeepCopy()
		changed.Data = data
		_, err = s.ConfigMaps.Update(ctx, changed, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing layout %d of the shards to ConfigMap %s: %w", next.Version, s.Name(), err)
	}
	return nil
}
