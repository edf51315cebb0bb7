//! Cluster, topics, configuration, producer id blocks.

use super::field::fields;
use ottla_types::record::{
    BrokerConfigured, ClusterCreated, PartitionsAdded, ProducerIdsReserved, TopicConfigured, TopicCreated,
    TopicDeleted,
};

fields! {
    ClusterCreated { cluster_id }
    TopicCreated { id, name, partitions, configs, at }
    TopicDeleted { id, at }
    PartitionsAdded { id, partitions }
    TopicConfigured { id, configs }
    BrokerConfigured { configs }
    ProducerIdsReserved { next }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::generators::{any_configs, any_millis, any_topic, round_trip};
    use ottla_types::ProducerId;
    use ottla_types::record::{CatalogRecord, LogRecord, TransactionRecord};
    use proptest::prelude::*;

    pub(crate) fn any_record() -> impl Strategy<Value = LogRecord> {
        prop_oneof![
            ".{0,22}".prop_map(|cluster_id| LogRecord::Catalog(CatalogRecord::ClusterCreated(
                ClusterCreated { cluster_id }
            ))),
            (any_topic(), ".{0,20}", any::<i32>(), any_configs(), any_millis()).prop_map(
                |(id, name, partitions, configs, at)| {
                    LogRecord::Catalog(CatalogRecord::TopicCreated(TopicCreated {
                        id,
                        name,
                        partitions,
                        configs,
                        at,
                    }))
                }
            ),
            (any_topic(), any_millis()).prop_map(|(id, at)| LogRecord::Catalog(CatalogRecord::TopicDeleted(
                TopicDeleted { id, at }
            ))),
            (any_topic(), any::<i32>()).prop_map(|(id, partitions)| {
                LogRecord::Catalog(CatalogRecord::PartitionsAdded(PartitionsAdded { id, partitions }))
            }),
            (any_topic(), any_configs()).prop_map(|(id, configs)| LogRecord::Catalog(
                CatalogRecord::TopicConfigured(TopicConfigured { id, configs })
            )),
            any_configs().prop_map(|configs| LogRecord::Catalog(CatalogRecord::BrokerConfigured(
                BrokerConfigured { configs }
            ))),
            any::<i64>().prop_map(|next| {
                LogRecord::Transactions(TransactionRecord::ProducerIdsReserved(ProducerIdsReserved {
                    next: ProducerId(next),
                }))
            }),
        ]
    }

    proptest! {
        #[test]
        fn comes_back_as_written(record in any_record()) {
            round_trip(&record)?;
        }
    }
}
